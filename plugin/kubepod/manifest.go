package kubepod

import (
	"bytes"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// maxReplicas bounds what one workload can make of a few bytes. It is far above the 110 pods that a kubelet runs by default.
const maxReplicas = 10_000

// ParseManifests reads the pods of Kubernetes manifests: YAML or JSON, one document or several, of Pods, Lists, and the workloads that have
// a pod template, which give as many pods as they have replicas. Other kinds are passed over. It is an error if no pod is there.
func ParseManifests(text []byte) ([]Pod, error) {
	var pods []Pod
	var kinds []string
	for i, document := range documents(text) {
		var m manifest
		if err := yaml.Unmarshal(document, &m); err != nil {
			return nil, fmt.Errorf("manifest %d: %w", i+1, err)
		}
		if m.Kind == "" {
			return nil, fmt.Errorf("manifest %d has no kind", i+1)
		}
		kinds = append(kinds, m.Kind)
		found, err := m.pods()
		if err != nil {
			return nil, fmt.Errorf("manifest %d: %w", i+1, err)
		}
		pods = append(pods, found...)
	}
	if len(pods) == 0 {
		return nil, fmt.Errorf("no pod in the manifests, which have the kinds [%s]: give a Pod, or a workload with a pod template",
			strings.Join(kinds, " "))
	}
	return pods, nil
}

// documents cuts YAML at the lines that begin a document, and leaves out those with nothing but comments in them.
func documents(text []byte) [][]byte {
	var all [][]byte
	var current []byte
	empty := true
	flush := func() {
		if !empty {
			all = append(all, current)
		}
		current, empty = nil, true
	}
	for line := range bytes.Lines(text) {
		trimmed := bytes.TrimSpace(line)
		if rest, begins := bytes.CutPrefix(line, []byte("---")); begins && (len(rest) == 0 || bytes.ContainsAny(rest[:1], " \t\r\n")) {
			flush()
			continue
		}
		if len(trimmed) > 0 && trimmed[0] != '#' {
			empty = false
		}
		current = append(current, line...)
	}
	flush()
	return all
}

// manifest is what of a Kubernetes object bears on its pods.
type manifest struct {
	Kind     string     `json:"kind"`
	Metadata metadata   `json:"metadata"`
	Spec     spec       `json:"spec"`
	Items    []manifest `json:"items"`
}

type metadata struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
	UID         string            `json:"uid"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// spec is that of a Pod, or of a workload.
type spec struct {
	podSpec
	Replicas    *int     `json:"replicas"`    // Deployment, ReplicaSet, StatefulSet
	Parallelism *int     `json:"parallelism"` // Job
	Template    template `json:"template"`
}

type template struct {
	Metadata metadata `json:"metadata"`
	Spec     podSpec  `json:"spec"`
}

type podSpec struct {
	InitContainers []containerSpec `json:"initContainers"`
	Containers     []containerSpec `json:"containers"`
	Resources      *requirements   `json:"resources"`
}

type containerSpec struct {
	Name          string        `json:"name"`
	RestartPolicy RestartPolicy `json:"restartPolicy"`
	Resources     requirements  `json:"resources"`
}

type requirements struct {
	Requests Resources `json:"requests"`
	Limits   Resources `json:"limits"`
}

func (m *manifest) pods() ([]Pod, error) {
	replicas := 1
	switch m.Kind {
	case "Pod":
		pod, err := m.Spec.pod(m.Metadata)
		return []Pod{pod}, err
	case "List", "PodList":
		var pods []Pod
		for i := range m.Items {
			if m.Kind == "PodList" {
				m.Items[i].Kind = "Pod" // the items of a typed list have no kind of their own
			}
			found, err := m.Items[i].pods()
			if err != nil {
				return nil, err
			}
			pods = append(pods, found...)
		}
		return pods, nil
	case "Deployment", "ReplicaSet", "StatefulSet":
		if m.Spec.Replicas != nil {
			replicas = *m.Spec.Replicas
		}
	case "Job":
		if m.Spec.Parallelism != nil {
			replicas = *m.Spec.Parallelism
		}
	case "DaemonSet":
	default:
		return nil, nil
	}
	return m.expand(replicas)
}

// expand makes the pods of a workload's template. They are numbered, as a StatefulSet's are.
func (m *manifest) expand(replicas int) ([]Pod, error) {
	if replicas > maxReplicas {
		return nil, fmt.Errorf("%s %q has %d pods, and a node runs %d at most", m.Kind, m.Metadata.Name, replicas, maxReplicas)
	}
	var pods []Pod
	for i := range replicas {
		meta := m.Spec.Template.Metadata
		meta.Name = fmt.Sprintf("%s-%d", m.Metadata.Name, i)
		meta.Namespace = m.Metadata.Namespace
		meta.UID = ""
		pod, err := m.Spec.Template.Spec.pod(meta)
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", m.Kind, m.Metadata.Name, err)
		}
		pods = append(pods, pod)
	}
	return pods, nil
}

func (s *podSpec) pod(meta metadata) (Pod, error) {
	pod := Pod{
		Name:        meta.Name,
		Namespace:   meta.Namespace,
		UID:         meta.UID,
		Labels:      meta.Labels,
		Annotations: meta.Annotations,
	}
	if s.Resources != nil {
		return Pod{}, fmt.Errorf("pod %q has resources of its own (spec.resources), which are not understood: give them to its containers", meta.Name)
	}
	for i := range s.InitContainers {
		pod.InitContainers = append(pod.InitContainers, s.InitContainers[i].container())
	}
	for i := range s.Containers {
		pod.Containers = append(pod.Containers, s.Containers[i].container())
	}
	return pod, pod.Check()
}

func (c *containerSpec) container() Container {
	return Container{Name: c.Name, RestartPolicy: c.RestartPolicy, Requests: c.Resources.Requests, Limits: c.Resources.Limits}
}
