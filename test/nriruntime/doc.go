// Package nriruntime is a container runtime without containers: the real NRI adaptation of containerd and CRI-O
// (github.com/containerd/nri/pkg/adaptation) on a real socket, and behind it pods and containers that exist in memory only, on a kernel
// that knows cpusets and quotas and nothing else.
//
// Plugins connect to it as they connect to the real ones, and see what the real ones show them: which events come and in which order, what
// Synchronize tells, what becomes of an update, of a failed creation, of a container that exits by itself. Where containerd and CRI-O differ,
// [Manner] says whose way it is. What was taken over from where is noted beside each rule; it was read in containerd 2.4.2
// (internal/nri, internal/cri/server) and CRI-O 1.34 (internal/nri, server).
//
// The caller plays the kubelet: [Runtime.RunPod], [Runtime.Create], [Runtime.Start], [Runtime.Stop], [Runtime.Remove] and so on are the calls
// of the CRI. [Runtime.Snapshot] says at any moment where the kernel would let each container run; [Hooks] has a place for every fault: calls
// that are lost, doubled, late or slow, updates that fail or are reported done and are not, creations that fail half way.
//
// With [Options.CgroupFiles] the kernel's state is in files as well, laid out as under /sys/fs/cgroup. A plugin may write cpuset.cpus and the
// CPU quota there, of containers, pods and all above them, and reads in cpuset.cpus.effective what the kernel makes of it. The files that are
// written are plain files: a write that a kernel would refuse is undone when somebody looks, instead of failing. Two readers of one effective
// file at the same moment get one answer between them.
package nriruntime
