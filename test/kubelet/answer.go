package kubelet

import (
	"nri-cpuset/plugin/kubepod"
	"nri-cpuset/plugin/simulate"
)

// Answered is a scenario with the kubelet's answers as its expectations.
type Answered struct {
	simulate.Scenario
	// MemoryWrong is the first step, counted from 0, at whose end the memory manager's own books are wrong ([memoryWatch]), or the number of
	// steps.
	MemoryWrong int
}

// Answer replays a scenario on the kubelet's managers. The error is a config that the kubelet does not start with.
//
// Left out of what it returns is what is not worth having, as in test/conformance: pods of several containers that are refused, for a runtime
// plugin decides container by container, and everything from where the shared pool is empty.
func Answer(s *simulate.Scenario, m *Machine, stateDir func() string) (*Answered, error) {
	for {
		answered, dropped, err := answer(s, m, stateDir())
		if err != nil || !dropped {
			return answered, err
		}
		s = &answered.Scenario // a refused pod may have left traces
	}
}

func answer(s *simulate.Scenario, m *Machine, stateDir string) (answered *Answered, dropped bool, err error) {
	n, err := NewNode(m, s.Config, stateDir)
	if err != nil {
		return nil, false, err
	}
	watch := newMemoryWatch(n)
	answered = &Answered{Scenario: simulate.Scenario{Name: s.Name, Topology: s.Topology, Config: s.Config}}
	for _, step := range s.Steps {
		if step.Add == nil {
			n.Remove(step.Remove)
			step.Expect = &simulate.Outcome{}
			watch.removed(step.Remove)
		} else {
			step.Expect = n.outcome(step.Add)
			watch.added(step.Add.Name)
		}
		step.Expect.Shared = n.Shared().String()
		if step.Expect.Shared == "" {
			break
		}
		if step.Add != nil && !*step.Expect.Admitted && len(step.Add.Containers) > 1 {
			dropped = true
			continue
		}
		answered.Steps = append(answered.Steps, step)
		if !watch.wrong {
			answered.MemoryWrong = len(answered.Steps)
		}
	}
	return answered, dropped, nil
}

func (n *Node) outcome(pod *kubepod.Pod) *simulate.Outcome {
	result := n.Add(pod)
	o := &simulate.Outcome{Admitted: &result.Admit, Reason: result.Reason}
	if !result.Admit {
		return o
	}
	o.Containers = map[string]simulate.Resources{}
	for _, c := range pod.Ordered() {
		o.Containers[c.Name] = simulate.Resources{CPUs: n.CPUs(pod.Name, c.Name).String(), Mems: n.Mems(pod.Name, c.Name).String()}
	}
	return o
}
