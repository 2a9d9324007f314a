package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"nri-cpuset/plugin/web"
)

// serve answers /metrics, /healthz, /readyz, /api/v1/state and the status page at / until ctx ends. Nothing there changes anything.
func (p *Plugin) serve(ctx context.Context) error {
	if p.options.Listen == "" {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", p.options.Listen)
	if err != nil {
		return fmt.Errorf("listening for --listen: %w", err)
	}
	server := &http.Server{
		Handler: p.handler(), ReadTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
	}
	stop := context.AfterFunc(ctx, func() { server.Close() }) //nolint:errcheck // it ends either way
	defer stop()
	p.log.WithField("listen", listener.Addr().String()).Info("serving metrics and state")
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving --listen: %w", err)
	}
	return nil
}

// handler answers each of the paths in docs/api.md, and GET and HEAD only.
func (p *Plugin) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", p.metrics.handler())
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		alive := false
		ctx, cancel := context.WithTimeout(r.Context(), 2*handlerBudget)
		defer cancel()
		p.locked(ctx, func() { alive = true })
		answer(w, alive, "the plugin's lock is held for too long")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		why := p.notReady()
		answer(w, why == "", why)
	})
	mux.HandleFunc("GET /api/v1/state", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", " ")
		if err := encoder.Encode(p.Report()); err != nil {
			p.log.WithError(err).Debug("the reader of /api/v1/state has gone")
		}
	})
	mux.Handle("GET /{$}", web.Handler(p.Report))
	return web.SafeHeaders(mux)
}

// notReady says why containers are not being placed as the configuration wants; "" where they are. A configuration that is wrong is no reason:
// the one before is in force.
func (p *Plugin) notReady() string {
	if !p.synchronized.Load() {
		return "not synchronized with the runtime"
	}
	return loaded(&p.conflict)
}

func answer(w http.ResponseWriter, ok bool, otherwise string) {
	if !ok {
		http.Error(w, otherwise, http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}
