package topology

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxKiB is more memory than any machine has (8 EiB), and little enough to be counted in bytes without an overflow.
const maxKiB = 1 << 53

// memTotal reads the line of "meminfo" that begins with key: "Node 0 MemTotal:" in nodeN/meminfo, "MemTotal:" in proc/meminfo.
func (f folder) memTotal(key string) (kib uint64, err error) {
	text, err := f.read("meminfo")
	if err != nil {
		return 0, err
	}
	if kib, err = parseMemTotal(text, key); err != nil {
		return 0, fmt.Errorf("%s: %w", f.path("meminfo"), err)
	}
	return kib, nil
}

// readProcMeminfo reads the memory of the whole machine, if the proc folder is there.
func (n *Node) readProcMeminfo(sys tree) error {
	proc, err := sys.proc()
	if absent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer proc.close()
	root, err := proc.folder(".")
	if err != nil {
		return err
	}
	defer root.close()
	n.MemoryKiB, err = root.memTotal("MemTotal:")
	if absent(err) {
		return nil
	}
	return err
}

// parseMemTotal finds "KEY   16772456 kB". The kernel's kB are KiB. It is what the kernel manages, so a little less than what is plugged in,
// and includes the huge pages.
func parseMemTotal(text, key string) (kib uint64, err error) {
	for line := range strings.Lines(text) {
		value, ok := strings.CutPrefix(line, key)
		if !ok {
			continue
		}
		number, ok := strings.CutSuffix(strings.TrimSpace(value), " kB")
		if !ok {
			return 0, fmt.Errorf("%q is not in kB", clip(line))
		}
		kib, err := strconv.ParseUint(strings.TrimSpace(number), 10, 64)
		if err != nil || kib > maxKiB {
			return 0, fmt.Errorf("%q is no amount of memory", clip(line))
		}
		return kib, nil
	}
	return 0, fmt.Errorf("no line begins with %q", key)
}

// readHugePages counts the pages of each size, in hugepages/hugepages-2048kB/nr_hugepages below parent
// (Documentation/admin-guide/mm/hugetlbpage.rst). A size of which there are none is counted all the same: the kernel supports it.
func (n *Node) readHugePages(parent folder) error {
	sizes, err := parent.folder("hugepages")
	if absent(err) {
		return nil // a kernel without huge pages
	}
	if err != nil {
		return err
	}
	defer sizes.close()
	names, err := sizes.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		kib, err := parseHugePageSize(name)
		if err != nil {
			return fmt.Errorf("%s: %w", sizes.path(name), err)
		}
		if n.HugePages[kib], err = readHugePageCount(sizes, name); err != nil {
			return err
		}
	}
	if err := checkHugePages(n); err != nil {
		return fmt.Errorf("%s: %w", sizes.name, err)
	}
	return nil
}

func readHugePageCount(sizes folder, name string) (uint64, error) {
	size, err := sizes.folder(name)
	if err != nil {
		return 0, err
	}
	defer size.close()
	count, err := size.integer("nr_hugepages")
	if err == nil && count < 0 {
		err = fmt.Errorf("%s: %d is no number of pages", size.path("nr_hugepages"), count)
	}
	return uint64(max(count, 0)), err
}

// parseHugePageSize reads the size out of a folder's name, "hugepages-2048kB".
func parseHugePageSize(name string) (kib uint64, err error) {
	digits, isSize := strings.CutPrefix(name, "hugepages-")
	digits, isKB := strings.CutSuffix(digits, "kB")
	if isSize && isKB {
		kib, err = strconv.ParseUint(digits, 10, 64)
	}
	if err != nil || kib == 0 || kib > maxKiB {
		return 0, errors.New("the name is no size of huge pages, such as hugepages-2048kB")
	}
	return kib, nil
}

// checkHugePages fails where the huge pages are more than all the memory of the node, which includes them.
func checkHugePages(node *Node) error {
	left := node.MemoryKiB
	for _, kib := range node.pageSizes() {
		count := node.HugePages[kib]
		if count > left/kib {
			return fmt.Errorf("%d huge pages of %d KiB do not fit into the %d KiB of node %d", count, kib, left, node.ID)
		}
		left -= count * kib
	}
	return nil
}
