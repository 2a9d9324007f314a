// Package state remembers what a node's containers have been given.
//
// A [Node] is the one place that changes it: [Node.Place], [Node.Resize], [Node.Release], [Node.Adopt] and [Node.Reconfigure] ask the
// allocator, check the answer against the invariants, write the state file and only then return. Each of them is all or nothing. Nobody else
// decides anything, and nothing here talks to a runtime or to the kernel: what a container should have is read with [Node.Wanted], and
// bringing the world there is the business of package plugin.
package state
