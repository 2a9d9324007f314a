package topology

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"nri-cpuset/topology/cpuset"
)

// summary is the machine in a line or two.
func (p *picture) summary() []line {
	m := p.machine
	parts := []string{plural(m.Online.Len(), "CPU"), m.coreSummary(), plural(len(m.Packages), "package"), plural(len(m.Nodes), "NUMA node")}
	if len(m.Caches) > 0 {
		parts = append(parts, plural(len(m.Caches), "last-level cache"))
	}
	if d, same := m.sameDistance(); same {
		parts = append(parts, fmt.Sprintf("distance %d", d))
	}
	var lines []line
	if m.Name != "" {
		lines = append(lines, plain(truncate(m.Name, p.options.Width)))
	}
	lines = append(lines, wrap(strings.Join(parts, " · "), p.options.Width)...)
	var special []string
	if !m.Offline.IsEmpty() {
		special = append(special, "offline: "+m.Offline.String())
	}
	if !m.Isolated.IsEmpty() {
		special = append(special, "isolated: "+m.Isolated.String())
	}
	return append(lines, wrap(strings.Join(special, " · "), p.options.Width)...)
}

// coreSummary tells the cores by their number of threads: "64 cores of 2 threads", "8 cores, 6 cores of 2 threads".
func (m *Machine) coreSummary() string {
	byThreads := map[int]int{}
	for _, core := range m.Cores {
		byThreads[core.CPUs.Len()]++
	}
	var parts []string
	for _, threads := range sortedKeys(byThreads) {
		text := plural(byThreads[threads], "core")
		if threads > 1 {
			text += fmt.Sprintf(" of %d threads", threads)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// notes are what has no place in the boxes.
func (p *picture) notes() []line {
	lines := p.distances()
	if devices := p.devices(none, p.options.Width); len(devices) > 0 {
		lines = append(lines, plain("PCI devices near no node in particular:"))
		lines = append(lines, devices...)
	}
	if p.density >= barest {
		lines = append(lines, plain("The huge pages and PCI devices of so many nodes are not drawn."))
	}
	for _, l := range p.machine.LeftOut {
		lines = append(lines, wrap(fmt.Sprintf("node %d is left out: %s", l.Node, l.Reason), p.options.Width)...)
	}
	return lines
}

// maxDistances is of how many nodes the table of distances is drawn, where there is little room for it.
const maxDistances = 8

// distances is the table of distances between nodes, unless they are the same between any two.
func (p *picture) distances() []line {
	nodes := p.machine.Nodes
	if _, same := p.machine.sameDistance(); same || len(nodes) == 1 || nodes[0].Distances == nil {
		return nil
	}
	if p.density > roomy && len(nodes) > maxDistances {
		return nil
	}
	ids := make([]int, 0, len(nodes))
	for _, n := range nodes {
		ids = append(ids, n.ID)
	}
	lines := []line{tableRow("distance of node", ids)}
	for _, n := range nodes {
		lines = append(lines, tableRow(strconv.Itoa(n.ID), n.Distances))
	}
	return lines
}

func tableRow(head string, numbers []int) line {
	var b strings.Builder
	fmt.Fprintf(&b, "%16s", head)
	for _, n := range numbers {
		fmt.Fprintf(&b, "%5d", n)
	}
	return plain(b.String())
}

// sameDistance returns the distance between any two nodes, if it is the same everywhere.
func (m *Machine) sameDistance() (distance int, same bool) {
	for i, n := range m.Nodes {
		for j, d := range n.Distances {
			switch {
			case i == j:
			case distance == 0:
				distance = d
			case d != distance:
				return 0, false
			}
		}
	}
	return distance, distance != 0
}

// deviceKinds are the classes of PCI devices that people place containers near to, by the first byte; the others are not drawn.
var deviceKinds = map[uint32]string{
	0x01: "storage",
	0x02: "network",
	0x03: "display",
	0x0b: "processor",
	0x12: "accelerator",
}

// devices lists the PCI devices of a node by kind: "network 3b:00.0-1 5e:00.0".
func (p *picture) devices(node, width int) []line {
	byKind := map[string][]string{}
	for _, d := range p.machine.PCIDevices {
		kind, drawn := deviceKinds[d.Class>>16]
		if drawn && d.Node == node {
			byKind[kind] = append(byKind[kind], strings.TrimPrefix(d.Address, "0000:"))
		}
	}
	var lines []line
	for _, kind := range sortedKeys(byKind) {
		const most = 8
		shown := joinFunctions(byKind[kind])
		text := kind + " " + strings.Join(shown[:min(most, len(shown))], " ")
		if more := len(shown) - most; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		lines = append(lines, wrap(text, width)...)
	}
	return lines
}

// joinFunctions joins the functions of one device, 3b:00.0 and 3b:00.1, to 3b:00.0-1. The addresses are sorted.
func joinFunctions(addresses []string) []string {
	var joined []string
	first := ""
	for _, address := range addresses {
		if slot := strings.TrimSuffix(address, address[len(address)-1:]); first != "" && strings.HasPrefix(first, slot) {
			joined[len(joined)-1] = first + "-" + address[len(slot):]
			continue
		}
		first = address
		joined = append(joined, address)
	}
	return joined
}

// legend tells what the marks mean, and whose CPUs are which.
func (p *picture) legend() []line {
	if p.options.Mark == nil {
		return nil
	}
	owners := map[Mark]cpuset.Set{}
	var order []Mark
	for cpu := range p.machine.Online.All() {
		mark := p.options.Mark(cpu)
		cpus, seen := owners[mark]
		if !seen {
			order = append(order, mark)
		}
		cpus.Add(cpu)
		owners[mark] = cpus
	}
	labelWidth := 0
	for _, mark := range order {
		labelWidth = max(labelWidth, plain(truncate(mark.Label, maxLabel)).width)
	}
	var lines []line
	for _, mark := range order {
		label := truncate(mark.Label, maxLabel)
		head := fmt.Sprintf("%s  %s  ", p.colored(owners[mark].First(), string(mark.Rune)), plain(label).padded(labelWidth))
		width := p.options.Width - labelWidth - 5
		for i, l := range wrapList(owners[mark], width) {
			if i > 0 {
				head = strings.Repeat(" ", labelWidth+5)
			}
			lines = append(lines, line{text: head + l})
		}
	}
	return lines
}

const maxLabel = 40

// wrapList writes a set in the list format, broken after commas.
func wrapList(s cpuset.Set, width int) []string {
	var lines []string
	current := ""
	for part := range strings.SplitAfterSeq(s.String(), ",") {
		if current != "" && len(current)+len(part) > width {
			lines = append(lines, current)
			current = ""
		}
		current += part
	}
	return append(lines, current)
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
