package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"nri-cpuset/config"
	"nri-cpuset/plugin/kubepod"
	"nri-cpuset/plugin/simulate"
	"nri-cpuset/topology"
)

const simulateHelp = `Replay pods on a machine, real or described, without a runtime. They go through the same code as in the plugin: what is shown is what would
happen.

Examples:
  nri-cpuset simulate --pods pods.yaml --sysfs /sys --config config.yaml
  nri-cpuset simulate --scenario cases.jsonl --topologies topologies --verify
`

type simulateFlags struct {
	scenario, pods, topologies, config, sysfs, node, output string
	verify                                                  bool
}

func simulateCommand(args []string, stdout, stderr io.Writer) int {
	var f simulateFlags
	flags := pflag.NewFlagSet("simulate", pflag.ContinueOnError)
	flags.StringVar(&f.scenario, "scenario", "", "scenarios, a `FILE` of JSON lines")
	flags.StringVar(&f.topologies, "topologies", "", "`DIR` where a scenario's topology name is looked up as NAME.json")
	flags.StringVar(&f.pods, "pods", "", "or: Kubernetes Pod manifests, a `FILE`")
	flags.StringVar(&f.config, "config", "", "with --pods: the configuration `FILE`")
	flags.StringVar(&f.node, "node-name", defaultNodeName(), "with --pods: the node's `NAME`, by which the configuration's overrides are chosen")
	flags.StringVar(&f.sysfs, "sysfs", "/sys", "with --pods: the machine, a `DIR` with sysfs or a described machine's .json file")
	flags.StringVar(&f.output, "output", "text", "`FORMAT`: text, or json: one line a scenario")
	flags.BoolVar(&f.verify, "verify", false, "compare with each step's \"expect\": print every difference, then how many scenarios agree")
	if status, stop := parseFlags(flags, args, stdout, stderr, simulateHelp); stop {
		return status
	}
	agree, err := f.run(context.Background(), stdout)
	switch {
	case err != nil:
		return fail(stderr, "simulate", err)
	case !agree:
		return exitNo
	default:
		return exitDone
	}
}

func (f *simulateFlags) run(ctx context.Context, stdout io.Writer) (agree bool, err error) {
	if f.output != "text" && f.output != "json" {
		return false, fmt.Errorf("--output %q is neither text nor json", f.output)
	}
	if (f.scenario == "") == (f.pods == "") {
		return false, errors.New("give either --scenario or --pods")
	}
	if f.pods != "" {
		return true, f.runPods(ctx, stdout)
	}
	text, err := os.ReadFile(f.scenario)
	if err != nil {
		return false, err
	}
	scenarios, err := simulate.ParseScenarios(text)
	if err != nil {
		return false, fmt.Errorf("%s: %w", f.scenario, err)
	}
	machines := machines{dir: f.topologies}
	agreeing := 0
	for i := range scenarios {
		s := &scenarios[i]
		machine, err := machines.get(s.Topology)
		if err != nil {
			return false, err
		}
		differs, err := f.runScenario(ctx, s, machine, stdout)
		if err != nil {
			return false, err
		}
		if !differs {
			agreeing++
		}
	}
	if f.verify {
		fmt.Fprintf(stdout, "%d of %d scenarios agree\n", agreeing, len(scenarios))
	}
	return !f.verify || agreeing == len(scenarios), nil
}

func (f *simulateFlags) runScenario(ctx context.Context, s *simulate.Scenario, machine *topology.Machine, stdout io.Writer) (differs bool, err error) {
	var each func(int, *simulate.Simulation, *simulate.Outcome)
	text := simulate.NewText(stdout, machine, isTerminal(stdout))
	if f.output == "text" && !f.verify {
		text.Scenario(s)
		each = func(step int, sim *simulate.Simulation, o *simulate.Outcome) {
			text.Step(step+1, &s.Steps[step], sim, o)
		}
	}
	result, err := simulate.Run(ctx, s, machine, each)
	if err != nil {
		return false, err
	}
	if f.output == "json" && !f.verify {
		return false, json.NewEncoder(stdout).Encode(result)
	}
	if !f.verify {
		return false, text.Err()
	}
	for i := range result.Steps {
		for _, line := range result.Steps[i].Differences(s.Steps[i].Expect) {
			fmt.Fprintf(stdout, "%s, step %d: %s\n", s.Name, i+1, line)
			differs = true
		}
	}
	return differs, nil
}

// runPods plays manifests as a scenario that adds them all.
func (f *simulateFlags) runPods(ctx context.Context, stdout io.Writer) error {
	text, err := os.ReadFile(f.pods)
	if err != nil {
		return err
	}
	pods, err := kubepod.ParseManifests(text)
	if err != nil {
		return fmt.Errorf("%s: %w", f.pods, err)
	}
	if f.config == "" {
		return errors.New("--pods needs --config")
	}
	cfg, err := config.Load(f.config, f.node)
	if err != nil {
		return err
	}
	machine, err := readMachine(f.sysfs)
	if err != nil {
		return err
	}
	settings, err := json.Marshal(cfg)
	if err != nil {
		return err
	}
	s := &simulate.Scenario{Name: filepath.Base(f.pods), Config: settings}
	for i := range pods {
		s.Steps = append(s.Steps, simulate.Step{Add: &pods[i]})
	}
	_, err = f.runScenario(ctx, s, machine, stdout)
	return err
}

// machines are described machines, each read once.
type machines struct {
	dir    string
	byName map[string]*topology.Machine
}

func (m *machines) get(name string) (*topology.Machine, error) {
	if machine := m.byName[name]; machine != nil {
		return machine, nil
	}
	if m.dir == "" {
		return nil, fmt.Errorf("a scenario names the topology %q: say with --topologies where it is", name)
	}
	if name != filepath.Base(name) {
		return nil, fmt.Errorf("%q is no name of a topology", name)
	}
	machine, err := readMachine(filepath.Join(m.dir, name+".json"))
	if err != nil {
		return nil, err
	}
	if m.byName == nil {
		m.byName = map[string]*topology.Machine{}
	}
	m.byName[name] = machine
	return machine, nil
}
