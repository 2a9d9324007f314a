package plugin

import (
	"slices"
	"strconv"
	"sync/atomic"

	"nri-cpuset/allocator"
	"nri-cpuset/plugin/web"
	"nri-cpuset/state"
)

// Report returns what is going on, from one moment's books.
func (p *Plugin) Report() web.Report {
	s := p.node.Snapshot()
	policy, machine, inForce := s.Rules.Allocator.Policy(), s.Rules.Allocator.Machine(), p.inForce.Load()
	r := web.Report{
		Node: p.options.NodeName, Version: p.options.Version, Time: p.options.Now(), Started: p.started,
		Runtime: (*web.Runtime)(p.connected.Load()), Ready: p.notReady() == "",
		Policy: string(policy.CPUManager), PolicyOptions: []string{}, MemoryManagerPolicy: string(policy.MemoryManager),
		TopologyManagerPolicy: string(policy.TopologyManager), TopologyManagerScope: string(policy.Scope),
		Config: inForce.String(), ConfigErr: loaded(&p.configError), Conflict: loaded(&p.conflict),
		Machine: machine,
		Online:  s.Online, Reserved: s.Reserved, Isolated: machine.Isolated, Shared: s.Shared, Exclusive: s.Exclusive,
		Containers: make([]web.Container, 0, len(s.Containers)), Refusals: p.refusals.latest(),
	}
	if policy.CPUManager == allocator.CPUManagerStatic {
		r.PolicyOptions = optionsOn(inForce.CPUManagerPolicyOptions)
	}
	if s.SaveError != nil {
		r.StateErr = s.SaveError.Error()
	}
	for i := range s.Containers {
		r.Containers = append(r.Containers, containerReport(&s.Rules, &s.Containers[i]))
	}
	return r
}

// loaded returns a text that may not be there.
func loaded(text *atomic.Pointer[string]) string {
	if t := text.Load(); t != nil {
		return *t
	}
	return ""
}

// optionsOn returns the names of the options that are on. Their values were checked when they were read.
func optionsOn(options map[string]string) []string {
	names := []string{}
	for name, value := range options {
		if on, err := strconv.ParseBool(value); on && err == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func containerReport(rules *state.Rules, c *state.Container) web.Container {
	return web.Container{
		Namespace: c.Namespace, Pod: c.Pod, PodUID: c.PodUID, Name: c.Name, ID: c.ID, Phase: string(c.Phase),
		Exclusive: c.Exclusive(), Policy: containerPolicy(rules, c), CPUs: c.Placement.CPUs, Mems: c.Placement.Mems(),
		Why: c.Placement.Why, Unsettled: c.Unsettled, Since: c.Since,
	}
}

func containerPolicy(rules *state.Rules, c *state.Container) web.ContainerPolicy {
	switch {
	case rules.Allocator.Policy().CPUManager == allocator.CPUManagerNone:
		return web.PolicyNone
	case c.Exclusive():
		return web.PolicyExclusive
	case rules.Ignores != nil && rules.Ignores(c.Namespace, c.Labels):
		return web.PolicyIgnored
	default:
		return web.PolicyShared
	}
}
