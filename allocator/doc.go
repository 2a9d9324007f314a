// Package allocator decides which CPUs and which NUMA nodes' memory a container gets: what the kubelet's CPU, memory and topology managers
// decide together, and more.
//
// It is pure: no files, clocks, logs or locks, and the same input gives the same answer. An [Allocator] is one machine under one [Policy];
// it is immutable and may be used from several goroutines. What is taken is in a [Usage], which the caller keeps. [Allocator.Place] looks at
// a Usage and answers a [Request] with a [Placement] or a [*Refusal], and changes nothing; [Usage.Take] and [Usage.Give] keep the books.
//
// One decision goes through the files in this order, and a wrong answer can be looked for in that of its step:
//
//   - affinity.go is the topology manager: it asks for hints (hints.go for CPUs, memory.go, devices.go), merges them (merge.go, with
//     search.go and mask.go below it) and refuses by its policy.
//   - resize.go decides whether CPUs are placed, kept, added or given up; cpus.go checks the rules and says where to take them from first.
//   - packed.go and distributed.go pick the CPUs, with caches.go and cores.go for the options of these names, on what layout.go and pool.go
//     know of the machine.
//   - memory.go takes the memory.
//   - refuse.go and why.go write it down for people.
//
// It takes some 5 microseconds on a machine with 128 CPUs and 4 NUMA nodes, and some 50 on one with 64 nodes. The slowest cases found, on
// machines made up for the purpose, take tens of milliseconds, because the search over NUMA nodes is bounded (search.go).
package allocator
