// Package kubelet runs the kubelet's own CPU, memory and topology managers beside this project's, on the same machines and pods: do both give
// the same answer, and how long does each take?
//
// [Node] wires k8s.io/kubernetes' managers as the kubelet's container manager does, their alpha options on, with pods instead of an API server
// and nothing to carry out what they decide. [Answer] replays a scenario on them and writes what they say into its expectations. The tests
// compare; random_machine_test.go and random_scenario_test.go make up what they compare on.
//
// It is a module of its own because k8s.io/kubernetes is heavy, and not part of make test: see the Makefile beside it.
package kubelet
