package kubelet

import (
	"nri-cpuset/plugin/kubepod"
	"nri-cpuset/plugin/simulate"
)

// Answer replays a scenario on the kubelet's managers and returns it with their answers as its expectations. Left out of it are the steps whose
// answer is not worth having, as test/conformance says: a pod of several containers that is refused, and all from where the shared pool is
// empty. The error is a config that the kubelet does not start with.
func Answer(s *simulate.Scenario, m *Machine, stateDir string) (*simulate.Scenario, error) {
	n, err := NewNode(m, s.Config, stateDir)
	if err != nil {
		return nil, err
	}
	answered := *s
	answered.Steps = nil
	for _, step := range s.Steps {
		keep := true
		if step.Add == nil {
			n.Remove(step.Remove)
			step.Expect = &simulate.Outcome{}
		} else {
			step.Expect = n.outcome(step.Add)
			keep = *step.Expect.Admitted || len(step.Add.Containers) == 1
		}
		step.Expect.Shared = n.Shared().String()
		if step.Expect.Shared == "" {
			break
		}
		if keep {
			answered.Steps = append(answered.Steps, step)
		}
	}
	return &answered, nil
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
