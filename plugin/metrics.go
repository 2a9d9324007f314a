package plugin

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"nri-cpuset/allocator"
	"nri-cpuset/state"
)

// metrics are what /metrics shows. No label carries a name from outside: their number is bounded.
type metrics struct {
	registry *prometheus.Registry

	requests      prometheus.Counter
	errors        prometheus.Counter
	refusals      *prometheus.CounterVec
	handlers      *prometheus.HistogramVec
	failures      *prometheus.CounterVec
	panics        prometheus.Counter
	drifts        *prometheus.CounterVec
	audits        prometheus.Counter
	moves         *prometheus.CounterVec
	reloads       *prometheus.CounterVec
	connections   *prometheus.CounterVec
	stateFiles    prometheus.Counter
	updates       *prometheus.CounterVec
	updateSeconds prometheus.Histogram
	conflicts     prometheus.Gauge
}

// Buckets from a fast decision to the runtime's limit.
var handlerBuckets = []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2}

func newMetrics(version string) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "cpu_manager_pinning_requests_total",
			Help: "Containers that asked for exclusive CPUs (the kubelet's name for it).",
		}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "cpu_manager_pinning_errors_total",
			Help: "Containers that asked for exclusive CPUs and were refused (the kubelet's name for it).",
		}),
		refusals: counters("nri_cpuset_refusals_total", "Requests refused, by reason.", "reason"),
		handlers: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "nri_cpuset_handler_duration_seconds", Help: "Time to answer an NRI event, waiting for others included.", Buckets: handlerBuckets,
		}, []string{"event"}),
		failures: counters("nri_cpuset_handler_errors_total", "NRI events answered with an error.", "event"),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "nri_cpuset_panics_total", Help: "Handlers that panicked. Each is a bug.",
		}),
		drifts: counters("nri_cpuset_drift_total", "Containers found on other CPUs than decided, and repaired, by cause and by what found it.",
			"cause", "found"),
		audits: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "nri_cpuset_audits_total", Help: "Comparisons of all containers with the kernel's files.",
		}),
		moves:       counters("nri_cpuset_moves_total", "Running containers whose exclusive CPUs changed, by result.", "result"),
		reloads:     counters("nri_cpuset_reloads_total", "Configuration changes, by result.", "result"),
		connections: counters("nri_cpuset_connections_total", "Connections to the runtime made and lost.", "event"),
		stateFiles: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "nri_cpuset_state_files_rejected_total", Help: "State files that were not used.",
		}),
		updates: counters("nri_cpuset_runtime_updates_total", "Containers changed through the runtime outside of a request, by result.", "result"),
		updateSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "nri_cpuset_runtime_update_duration_seconds", Help: "Time of one call to the runtime that changes a few containers.",
			Buckets: prometheus.ExponentialBuckets(.001, 4, 8),
		}),
		conflicts: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "nri_cpuset_kubelet_conflict", Help: "1 while the kubelet's own managers pin containers and we leave it to them.",
		}),
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "nri_cpuset_build_info", Help: "1, with the version as a label.", ConstLabels: prometheus.Labels{"version": version},
	})
	info.Set(1)
	m.registry.MustRegister(info, m.requests, m.errors, m.refusals, m.handlers, m.failures, m.panics, m.drifts, m.audits, m.moves, m.reloads,
		m.connections, m.stateFiles, m.updates, m.updateSeconds, m.conflicts,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// follow adds the gauges that are read from the books when they are asked for.
func (m *metrics) follow(node *state.Node) { m.registry.MustRegister(&bookCollector{node}) }

func (m *metrics) handled(event string, took time.Duration, err error) {
	m.handlers.WithLabelValues(event).Observe(took.Seconds())
	if err != nil {
		m.failures.WithLabelValues(event).Inc()
	}
}

func (m *metrics) placed(c *state.Container) {
	if c.Exclusive() {
		m.requests.Inc()
	}
}

func (m *metrics) refused(reason allocator.Reason) {
	m.requests.Inc()
	m.errors.Inc()
	m.refusals.WithLabelValues(string(reason)).Inc()
}

func (m *metrics) rebuilt(r *state.Rebuilt) {
	m.moves.WithLabelValues("moved").Add(float64(len(r.Moves)))
	m.moves.WithLabelValues("unplaced").Add(float64(len(r.Unplaced)))
}

func (m *metrics) runtimeUpdates(sent, failed int, took time.Duration) {
	m.updates.WithLabelValues("failed").Add(float64(failed))
	m.updates.WithLabelValues("done").Add(float64(sent - failed))
	m.updateSeconds.Observe(took.Seconds())
}

func (m *metrics) panicked()                 { m.panics.Inc() }
func (m *metrics) drift(cause, found string) { m.drifts.WithLabelValues(cause, found).Inc() }
func (m *metrics) audited()                  { m.audits.Inc() }
func (m *metrics) reloaded()                 { m.reloads.WithLabelValues("done").Inc() }
func (m *metrics) reloadFailed()             { m.reloads.WithLabelValues("failed").Inc() }
func (m *metrics) connected()                { m.connections.WithLabelValues("made").Inc() }
func (m *metrics) disconnected()             { m.connections.WithLabelValues("lost").Inc() }
func (m *metrics) stateFile()                { m.stateFiles.Inc() }

func (m *metrics) conflict(is bool) {
	if is {
		m.conflicts.Set(1)
	} else {
		m.conflicts.Set(0)
	}
}

// bookCollector reads gauges from the books.
type bookCollector struct{ node *state.Node }

var (
	cpusDesc = prometheus.NewDesc("nri_cpuset_cpus", "CPUs by what they are: shared, exclusive, reserved (also counted as shared unless "+
		"strictly reserved), online.", []string{"state"}, nil)
	containersDesc = prometheus.NewDesc("nri_cpuset_containers", "Containers by what they run on: exclusive CPUs or the shared pool.",
		[]string{"pool"}, nil)
	saveDesc = prometheus.NewDesc("nri_cpuset_state_file_writable", "1 if the state file could be written the last time.", nil, nil)
)

// Describe sends the gauges' descriptions.
func (c *bookCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- cpusDesc
	ch <- containersDesc
	ch <- saveDesc
}

// Collect sends the gauges.
func (c *bookCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.node.Snapshot()
	gauge := func(desc *prometheus.Desc, value int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), labels...)
	}
	gauge(cpusDesc, s.Shared.Len(), "shared")
	gauge(cpusDesc, s.Exclusive.Len(), "exclusive")
	gauge(cpusDesc, s.Reserved.Len(), "reserved")
	gauge(cpusDesc, s.Online.Len(), "online")
	exclusive, shared := 0, 0
	for i := range s.Containers {
		if s.Containers[i].Exclusive() {
			exclusive++
		} else {
			shared++
		}
	}
	gauge(containersDesc, exclusive, "exclusive")
	gauge(containersDesc, shared, "shared")
	writable := 1
	if s.SaveError != nil {
		writable = 0
	}
	gauge(saveDesc, writable)
}
