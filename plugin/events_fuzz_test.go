package plugin

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/sirupsen/logrus"

	"nri-cpuset/config"
	"nri-cpuset/topology"
)

// FuzzEvents throws events at the plugin in any order, also ones that no runtime would send: duplicates, late ones, ones for containers that
// are not known. Every two bytes are an event and whom it is about. The books keep every invariant, and no handler panics.
func FuzzEvents(f *testing.F) {
	f.Add([]byte{0, 0x21, 1, 1, 2, 1, 3, 1, 0, 0x02, 6, 1, 7, 1, 8, 0})
	f.Add([]byte{0, 0x11, 0, 0x12, 5, 0x31, 4, 1, 9, 0, 0, 0x13, 11, 0, 10, 0})
	f.Add([]byte{0, 0x41, 6, 1, 0, 0x21, 8, 0, 0, 0x22, 9, 3, 11, 0, 9, 0})
	machine, err := topology.Read(sysfs(f, 4, "0-3"))
	if err != nil {
		f.Fatal(err)
	}
	cfg, err := config.Parse([]byte(static1), "n")
	if err != nil {
		f.Fatal(err)
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	f.Fuzz(func(t *testing.T, events []byte) {
		opened, err := New(machine, cfg, nil, nil, Options{Log: log})
		if err != nil {
			t.Fatal(err)
		}
		p := &fixture{Plugin: opened}
		seen := map[string]*api.Container{}
		for i := 0; i+1 < len(events) && i < 200; i += 2 {
			if err := fuzzEvent(t, p, events[i]%12, events[i+1], seen); err != nil && isInternal(err) {
				t.Fatal(err)
			}
			if err := p.node.Check(); err != nil {
				t.Fatalf("after event %d: %v", i/2, err)
			}
		}
	})
}

func isInternal(err error) bool {
	return strings.Contains(err.Error(), "internal error") || strings.Contains(err.Error(), "invariant violated")
}

// fuzzEvent is one event. The low bits of about name the pod, the high ones how many half CPUs are asked for.
func fuzzEvent(t *testing.T, p *fixture, event, about byte, seen map[string]*api.Container) error {
	id, halves := fmt.Sprintf("p%d", about%8), int64(about>>4)
	parent := "/kubepods"
	if about&8 != 0 {
		parent = "/kubepods/burstable"
	}
	pod, ctr := podOf(id, parent), containerIn(id, uint64(halves)*512, halves*50000, parent)
	switch ctx := t.Context(); event {
	case 0:
		_, _, err := p.CreateContainer(ctx, pod, ctr)
		if err == nil {
			seen[id] = ctr
		}
		return err
	case 1:
		return p.PostCreateContainer(ctx, pod, ctr)
	case 2:
		return p.StartContainer(ctx, pod, ctr)
	case 3:
		return p.PostStartContainer(ctx, pod, ctr)
	case 4:
		_, err := p.UpdateContainer(ctx, pod, ctr, ctr.GetLinux().GetResources())
		return err
	case 5:
		return p.PostUpdateContainer(ctx, pod, ctr)
	case 6:
		_, err := p.StopContainer(ctx, pod, ctr)
		return err
	case 7:
		delete(seen, id)
		return p.RemoveContainer(ctx, pod, ctr)
	case 8:
		return p.StopPodSandbox(ctx, pod)
	case 9: // the runtime shows those of the containers whose bit is set
		var pods []*api.PodSandbox
		var ctrs []*api.Container
		for i := range 8 {
			if c := seen[fmt.Sprintf("p%d", i)]; c != nil && about&(1<<i) != 0 {
				c.State = api.ContainerState_CONTAINER_RUNNING
				pods, ctrs = append(pods, podOf(fmt.Sprintf("p%d", i), parent)), append(ctrs, c)
			}
		}
		_, err := p.Synchronize(ctx, pods, ctrs)
		return err
	case 10:
		return p.reconfigure(p.config, p.machine, "the same")
	default:
		text := []string{none, static1, "cpuManagerPolicy: static\nreservedSystemCPUs: \"1\"\n", static1 + "exclusiveScope: container\n"}[about%4]
		cfg, err := config.Parse([]byte(text), "n")
		if err != nil {
			t.Fatal(err)
		}
		return p.reconfigure(cfg, p.machine, "another")
	}
}
