// Package allocator decides which CPUs and which NUMA nodes' memory a container gets: what the kubelet's CPU, memory and topology managers
// decide together, and more.
//
// It is pure: no files, clocks, logs or locks, and the same input gives the same answer. An [Allocator] is one machine under one [Policy];
// it is immutable and may be used from several goroutines. What is taken is in a [Usage], which the caller keeps. [Allocator.Place] looks at
// a Usage and answers a [Request] with a [Placement] or a [*Refusal], and changes nothing; [Usage.Take] and [Usage.Give] keep the books.
package allocator
