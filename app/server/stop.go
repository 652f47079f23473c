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
	"time"

	"github.com/tenantry/tenantry/adapters/httpapi"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/wiring"
)

// cutOffReserve is the last part of drain_time. In it the remaining requests are cancelled, plugins
// exit and telemetry is flushed.
const cutOffReserve = 3 * time.Second

// pollInterval is how often a stop checks whether the connections are closed.
const pollInterval = 10 * time.Millisecond

// errStopping is the cancellation cause of the requests that did not finish in drain_time.
var errStopping = errors.New("the service stops")

// runningServer is an HTTP server that accepts connections on its listener.
type runningServer struct {
	server         *http.Server
	listener       *trackingListener
	cancelRequests context.CancelCauseFunc
	ended          chan struct{} // closed when the server accepts no more connections
	serveErr       error         // the error of Serve; set before ended is closed
}

// startServer serves handler on l until the listener is closed. A nil tlsConfig means plain HTTP.
// The contexts of the requests are not cancelled with ctx, because a stop lets requests finish.
func startServer(ctx context.Context, l net.Listener, tlsConfig *tls.Config, handler http.Handler, log *slog.Logger) *runningServer {
	base, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	r := &runningServer{server: httpapi.Server("", handler), listener: newTrackingListener(l), cancelRequests: cancel, ended: make(chan struct{})}
	r.server.BaseContext = func(net.Listener) context.Context { return base }
	r.server.ConnState = r.listener.connStateChanged
	r.server.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	go func() {
		defer close(r.ended)
		if tlsConfig == nil {
			r.serveErr = r.server.Serve(r.listener)
			return
		}
		r.server.TLSConfig = tlsConfig
		r.serveErr = r.server.ServeTLS(r.listener, "", "")
	}()
	return r
}

// drain stops accepting connections and closes idle connections. It answers every request of which
// at least one byte was read.
//
// At cancelAt drain cancels the contexts of the remaining requests and calls stopCalls. stopCalls
// aborts the plugin calls that the requests wait for, so that clients get a 503 or 504. At closeAt
// drain closes the remaining connections. It returns an error when requests were cancelled.
//
// http.Server.Shutdown is not used for two reasons. It closes a connection that it considers idle
// while a request is being read from it; the handler then runs and the client gets no answer. It
// also resets the connections in the kernel's accept queue.
func (r *runningServer) drain(cancelAt, closeAt time.Time, stopCalls func()) error {
	r.listener.stopAccepting()
	<-r.ended
	if r.listener.closeIdleUntil(cancelAt) {
		return nil
	}
	unfinished := r.listener.openConns()
	r.cancelRequests(errStopping)
	stopCalls()
	r.listener.closeIdleUntil(closeAt)
	_ = r.server.Close()
	return cli.WithFix(fmt.Errorf("%d requests were not finished in drain_time and were cut off", unfinished),
		"they may be sent again; raise drain_time if this happens often")
}

// stop shuts the service down. It makes /readyz report 503, keeps serving for drain_delay, drains
// the API server, stops the jobs and closes the service. The admin server closes last, so that
// monitoring can observe the stop. stop returns the errors of all steps, joined.
func stop(ctx context.Context, s *wiring.Service, api, admin *runningServer) error {
	began := time.Now()
	deadline, reserve := began.Add(s.DrainTime), min(cutOffReserve, s.DrainTime/2)
	s.Draining.Store(true)
	s.Log.Info("stopping", "drain_delay", s.DrainDelay.String(), "drain_time", s.DrainTime.String())
	select {
	case <-time.After(s.DrainDelay):
	case <-api.ended: // the API server failed, so no new requests arrive during the delay
	}
	// Jobs stop in parallel with the requests. Both stop before the plugins that they call.
	jobsCtx, cancelJobs := context.WithDeadline(context.WithoutCancel(ctx), deadline.Add(-reserve))
	defer cancelJobs()
	jobsStopped := make(chan error, 1)
	go func() { jobsStopped <- s.StopQueue(jobsCtx) }()
	err := errors.Join(api.drain(deadline.Add(-reserve), deadline.Add(-reserve/3), s.Host.Close), <-jobsStopped)
	closeCtx, cancelClose := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancelClose()
	err = errors.Join(err, s.Close(closeCtx))
	_ = admin.server.Close()
	s.Log.Info("stopped", "seconds", time.Since(began).Seconds())
	return err
}

// closeConnsWhileDraining returns a handler that adds "Connection: close" to each response while
// the service drains. Clients then do not reuse the connection.
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

// WriteHeader adds "Connection: close" if the service drains now. It checks this as late as
// possible, because a stop can begin while the request is in progress.
func (w drainingWriter) WriteHeader(status int) {
	if w.service.Draining.Load() {
		w.Header().Set("Connection", "close")
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap returns the wrapped writer. http.ResponseController calls it.
func (w drainingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
