package web

import "strings"

// String is the runtime in a few words; empty for none.
func (r *Runtime) String() string {
	if r == nil {
		return ""
	}
	text := r.Name + " " + r.Version
	if r.NRI != "" {
		text += ", NRI " + r.NRI
	}
	return text
}

// Policies is what is in force, in a few words for each of the managers.
func (r *Report) Policies() []string {
	cpus := "CPUs: " + r.Policy
	if len(r.PolicyOptions) > 0 {
		cpus += ", " + strings.Join(r.PolicyOptions, ", ")
	}
	alignment := "topology: " + r.TopologyManagerPolicy
	if r.TopologyManagerPolicy != "none" && r.TopologyManagerPolicy != "" {
		alignment += " for each " + r.TopologyManagerScope
	}
	return []string{cpus, "memory: " + r.MemoryManagerPolicy, alignment}
}

// Problem is something that somebody should look at.
type Problem struct {
	Title, Text string
}

// Problems returns what is wrong on the node, the most pressing first.
func (r *Report) Problems() []Problem {
	var list []Problem
	add := func(title, text string) { list = append(list, Problem{title, text}) }
	switch {
	case r.Runtime == nil:
		add("Not connected to a container runtime", "Nobody is placed until the runtime takes the plugin on. Containers that run keep their CPUs.")
	case !r.Ready:
		add("Not synchronized with the container runtime", "It has not yet told which containers run.")
	}
	if r.ConfigErr != "" {
		add("The configuration file is not in force", r.ConfigErr+"\nThe settings from before stay in force until the file is right.")
	}
	if r.Conflict != "" {
		add("The kubelet pins containers itself", r.Conflict)
	}
	if r.StateErr != "" {
		add("The state file cannot be written", r.StateErr+"\nAfter a restart, only what the runtime remembers is known.")
	}
	unsettled := 0
	for i := range r.Containers {
		if r.Containers[i].Unsettled != "" {
			unsettled++
		}
	}
	if unsettled > 0 {
		add(plural(unsettled, "container is not where the policy wants it", "containers are not where the policy wants them"),
			"The table says why.")
	}
	return list
}
