// SPDX-License-Identifier: Apache-2.0

package main

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
)

// cutTime is the last part of drain_time: what is still under way is told to
// end, plugins end and telemetry leaves.
const cutTime = 3 * time.Second

// tick is how often a stop looks whether it may go on.
const tick = 10 * time.Millisecond

var errCut = errors.New("the service stops")

// served is a server on its listener.
type served struct {
	server *http.Server
	door   *door
	cut    context.CancelCauseFunc
	ended  chan struct{} // closes when no more connections are accepted
	err    error         // why, once ended is closed
}

// serveAt serves until the door is closed, over TLS where there is a
// configuration for it. Requests do not end with ctx: a stop lets them finish.
func serveAt(ctx context.Context, l net.Listener, secured *tls.Config, handler http.Handler, log *slog.Logger) *served {
	base, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	r := &served{server: httpapi.Server("", handler), door: newDoor(l), cut: cut, ended: make(chan struct{})}
	r.server.BaseContext = func(net.Listener) context.Context { return base }
	r.server.ConnState = r.door.state
	r.server.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	go func() {
		defer close(r.ended)
		if secured == nil {
			r.err = r.server.Serve(r.door)
			return
		}
		r.server.TLSConfig = secured
		r.err = r.server.ServeTLS(r.door, "", "")
	}()
	return r
}

// drain takes no more connections, answers every request of which something
// was read, and ends connections on which nothing is under way. At the time
// of cutAt what is left is cut: reads are cancelled, and stop cuts off the
// calls that writes wait for, so that they are answered 503 or 504. At the
// time of end the connections are closed.
//
// Not http.Server.Shutdown: it closes connections that look idle although a
// request is being read from them, which then runs without an answer, and
// resets those that the kernel made and nobody accepted yet.
func (r *served) drain(cutAt, end time.Time, stop func()) error {
	r.door.shut()
	<-r.ended
	if r.door.emptyBy(cutAt) {
		return nil
	}
	left := r.door.count()
	r.cut(errCut)
	stop()
	r.door.emptyBy(end)
	_ = r.server.Close()
	return cli.WithFix(fmt.Errorf("%d requests were not finished in drain_time and were cut off", left),
		"they may be sent again; raise drain_time if this happens often")
}

// stop is the way from the signal to the end: it says that it is not ready,
// goes on for drain_delay, drains, and closes all. watch is what looks at the
// process and so ends last.
func (s *service) stop(ctx context.Context, api, watch *served) error {
	began := time.Now()
	deadline, reserve := began.Add(s.drainTime), min(cutTime, s.drainTime/2)
	s.draining.Store(true)
	s.log.Info("stopping", "drain_delay", s.drainDelay.String(), "drain_time", s.drainTime.String())
	select {
	case <-time.After(s.drainDelay):
	case <-api.ended: // by itself: there is nothing to wait for
	}
	// Jobs end beside the requests, before the plugins that both call.
	handing, handed := context.WithDeadline(context.WithoutCancel(ctx), deadline.Add(-reserve))
	defer handed()
	jobs := make(chan error, 1)
	go func() { jobs <- s.stopQueue(handing) }()
	err := errors.Join(api.drain(deadline.Add(-reserve), deadline.Add(-reserve/3), s.host.Close), <-jobs)
	closing, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	err = errors.Join(err, s.close(closing))
	_ = watch.server.Close()
	s.log.Info("stopped", "seconds", time.Since(began).Seconds())
	return err
}

// farewell tells clients of a service that stops that each answer is the last
// one on its connection.
func (s *service) farewell(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(lastAnswer{w, s}, r)
	})
}

type lastAnswer struct {
	http.ResponseWriter
	s *service
}

// WriteHeader decides as late as it can: the stop may begin while a request
// is under way.
func (a lastAnswer) WriteHeader(status int) {
	if a.s.draining.Load() {
		a.Header().Set("Connection", "close")
	}
	a.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (a lastAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
