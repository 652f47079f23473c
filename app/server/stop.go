// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/tenantry/tenantry/adapters/httpapi"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/wiring"
	"github.com/tenantry/tenantry/core/panics"
)

// cutOffReserve is the length of the last part of drain_time. During this part the remaining
// requests are cancelled, plugins exit and telemetry is flushed. The part is at most half of
// drain_time.
const cutOffReserve = 3 * time.Second

// errStopping is the cancellation cause of requests that did not finish before the last part of
// drain_time (see cutOffReserve).
var errStopping = errors.New("the service stops")

// runningServer is an HTTP server that accepts connections on its listener.
type runningServer struct {
	server         *http.Server
	inProgress     atomic.Int64 // requests that a handler works on
	cancelRequests context.CancelCauseFunc
	ended          chan struct{} // closed when the server accepts no more connections
	serveErr       error         // the error of Serve; set before ended is closed
}

// startServer serves handler on l until the listener is closed. A nil tlsConfig means plain HTTP.
// The cancellation of ctx does not cancel the contexts of requests, because a stop lets requests
// finish.
func startServer(ctx context.Context, l net.Listener, tlsConfig *tls.Config, connections *httpapi.ConnectionLimit, handler http.Handler, log *slog.Logger) *runningServer {
	base, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	r := &runningServer{cancelRequests: cancel, ended: make(chan struct{})}
	r.server = httpapi.Server("", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.inProgress.Add(1)
		defer r.inProgress.Add(-1)
		handler.ServeHTTP(w, req)
	}))
	connections.Attach(r.server)
	r.server.BaseContext = func(net.Listener) context.Context { return base }
	r.server.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	panics.Go(func() {
		if tlsConfig == nil {
			r.serveErr = r.server.Serve(l)
		} else {
			r.server.TLSConfig = tlsConfig
			r.serveErr = r.server.ServeTLS(l, "", "")
		}
		close(r.ended)
	}, func(e *panics.Error) {
		log.Error("panic", "type", e.Type, "stack", e.Stack)
		r.serveErr = e
		close(r.ended)
	})
	return r
}

// drain stops accepting connections, closes idle connections and waits until the requests in
// progress are answered.
//
// At cancelAt drain cancels the contexts of the remaining requests and calls stopCalls. stopCalls
// aborts the plugin calls that the requests wait for, so that clients get a 503 or 504. At closeAt
// drain closes the remaining connections. It returns an error when requests were cancelled.
func (r *runningServer) drain(ctx context.Context, cancelAt, closeAt time.Time, stopCalls func()) error {
	if r.shutdownUntil(ctx, cancelAt) {
		return nil
	}
	unfinished := r.inProgress.Load()
	r.cancelRequests(errStopping)
	stopCalls()
	if !r.shutdownUntil(ctx, closeAt) {
		_ = r.server.Close()
	}
	if unfinished == 0 { // only connections without a request, which browsers open in advance
		return nil
	}
	return cli.WithFix(fmt.Errorf("%d requests were not finished in drain_time and were cut off", unfinished),
		"clients can send these requests again; raise drain_time if this happens often")
}

// shutdownUntil reports whether all connections were closed before the deadline.
func (r *runningServer) shutdownUntil(ctx context.Context, deadline time.Time) bool {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	return r.server.Shutdown(ctx) == nil
}

// stop shuts the service down. It makes /readyz report 503 and keeps serving for drain_delay. Then
// it drains the API server and stops the jobs, and then closes the service. The admin server closes
// last, so that monitoring can observe the stop. stop returns the joined errors of these steps.
func stop(ctx context.Context, s *wiring.Service, api, admin *runningServer) error {
	began := time.Now()
	deadline, reserve := began.Add(s.DrainTime), min(cutOffReserve, s.DrainTime/2)
	s.Draining.Store(true)
	s.Events.Stop() // requests that wait for events are answered at once
	s.Log.Info("stopping", "drain_delay", s.DrainDelay.String(), "drain_time", s.DrainTime.String())
	select {
	case <-time.After(s.DrainDelay):
	case <-api.ended: // the API server failed, so no new requests arrive during the delay
	}
	// Jobs stop in parallel with the requests. Both call plugins, so the plugins stop only after
	// both, or when only the reserve of drain_time is left.
	jobsCtx, cancelJobs := context.WithDeadline(context.WithoutCancel(ctx), deadline.Add(-reserve))
	defer cancelJobs()
	jobsStopped := make(chan error, 1)
	panics.Go(func() { jobsStopped <- s.StopQueue(jobsCtx) }, func(e *panics.Error) { jobsStopped <- e })
	err := errors.Join(api.drain(ctx, deadline.Add(-reserve), deadline.Add(-reserve/3), s.Host.Close), <-jobsStopped)
	closeCtx, cancelClose := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancelClose()
	err = errors.Join(err, s.Close(closeCtx))
	_ = admin.server.Close()
	s.Log.Info("stopped", "seconds", time.Since(began).Seconds())
	return err
}

// closeConnsWhileDraining returns a handler that adds "Connection: close" to each response while
// the service drains. Clients then do not reuse the connection. next must call WriteHeader for each
// response, as package guard does.
func closeConnsWhileDraining(s *wiring.Service, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(drainingWriter{w, s}, r)
	})
}

// drainingWriter is the response writer of closeConnsWhileDraining.
type drainingWriter struct {
	http.ResponseWriter
	service *wiring.Service
}

// WriteHeader adds "Connection: close" if the service drains now. The check happens when the header
// is written, because a stop can begin while the request is in progress.
func (w drainingWriter) WriteHeader(status int) {
	if w.service.Draining.Load() {
		w.Header().Set("Connection", "close")
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap returns the wrapped writer. http.ResponseController calls it.
func (w drainingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
