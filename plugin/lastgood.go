package plugin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"nri-cpuset/config"
)

// lastGoodName is the file in the state directory that keeps the settings last in force on this node. A restart while the configuration is
// wrong, of the plugin, the node's kubelet or everything, must not change what is in force.
const lastGoodName = "config.last-good.yaml"

// loadConfig reads the configuration, and where it is wrong the last good one. wrong is then why the configuration is not used; err, that there
// is none to use at all.
func loadConfig(o Options) (cfg *config.Config, wrong, err error) {
	cfg, err = config.Load(o.ConfigFile, o.NodeName)
	if err == nil || o.StateDir == "" {
		return cfg, nil, err
	}
	text, readErr := os.ReadFile(filepath.Join(o.StateDir, lastGoodName))
	if readErr != nil {
		return nil, nil, err
	}
	last, parseErr := config.Parse(text, "")
	if parseErr != nil {
		return nil, nil, errors.Join(err, fmt.Errorf("and the last good one: %w", parseErr))
	}
	return last, err, nil
}

// keepLastGood writes the settings in force to the state directory.
func (p *Plugin) keepLastGood() {
	if p.options.StateDir == "" {
		return
	}
	path := filepath.Join(p.options.StateDir, lastGoodName)
	err := os.WriteFile(path+".new", []byte(p.config.String()), 0o600)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		p.log.WithError(err).Warn("the settings in force cannot be kept for a restart")
	}
}
