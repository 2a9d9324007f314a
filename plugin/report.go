package plugin

import (
	"time"

	"nri-cpuset/state"
	"nri-cpuset/topology/cpuset"
)

// Report is what /api/v1/state says, and what `nri-cpuset status` shows.
type Report struct {
	Node      string       `json:"node"`
	Version   string       `json:"version"`
	Started   time.Time    `json:"started"`
	Runtime   *runtimeInfo `json:"runtime"` // null while not connected
	Ready     bool         `json:"ready"`
	Policy    string       `json:"policy"`
	Config    string       `json:"config"`                // the settings in force, as YAML
	ConfigErr string       `json:"configError,omitempty"` // why the file's settings are not
	StateErr  string       `json:"stateError,omitempty"`  // why the state file could not be written

	Online    cpuset.Set `json:"online"`
	Reserved  cpuset.Set `json:"reserved"`
	Isolated  cpuset.Set `json:"isolated"`
	Shared    cpuset.Set `json:"shared"`
	Exclusive cpuset.Set `json:"exclusive"`

	Containers []ReportContainer `json:"containers"`
	Refusals   []refusal         `json:"refusals"`
}

// ReportContainer is one container in a report.
type ReportContainer struct {
	Namespace string     `json:"namespace"`
	Pod       string     `json:"pod"`
	PodUID    string     `json:"podUID"`
	Name      string     `json:"name"`
	ID        string     `json:"id"`
	Phase     string     `json:"phase"`
	Exclusive bool       `json:"exclusive"`
	CPUs      cpuset.Set `json:"cpus"` // exclusive ones; empty in the shared pool
	Mems      cpuset.Set `json:"mems"`
	Why       string     `json:"why"`
	Unsettled string     `json:"unsettled,omitempty"`
	Since     time.Time  `json:"since"`
}

// Report returns what is going on.
func (p *Plugin) Report() Report {
	s := p.node.Snapshot()
	policy := s.Rules.Allocator.Policy()
	r := Report{
		Node: p.options.NodeName, Version: p.options.Version, Started: p.started, Runtime: p.connected.Load(), Ready: p.synchronized.Load(),
		Policy: string(policy.CPUManager),
		Online: s.Online, Reserved: s.Reserved, Isolated: s.Rules.Allocator.Machine().Isolated, Shared: s.Shared, Exclusive: s.Exclusive,
		Containers: make([]ReportContainer, 0, len(s.Containers)), Refusals: p.refusals.latest(),
	}
	if text := p.configError.Load(); text != nil {
		r.ConfigErr = *text
	}
	if s.SaveError != nil {
		r.StateErr = s.SaveError.Error()
	}
	r.Config = p.inForce.Load().String()
	for i := range s.Containers {
		r.Containers = append(r.Containers, reportOf(&s.Containers[i]))
	}
	return r
}

func reportOf(c *state.Container) ReportContainer {
	return ReportContainer{
		Namespace: c.Namespace, Pod: c.Pod, PodUID: c.PodUID, Name: c.Name, ID: c.ID, Phase: string(c.Phase), Exclusive: c.Exclusive(),
		CPUs: c.Placement.CPUs, Mems: c.Placement.Mems(), Why: c.Placement.Why, Unsettled: c.Unsettled, Since: c.Since,
	}
}
