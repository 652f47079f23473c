// SPDX-License-Identifier: Apache-2.0

// Package server runs the service. It listens on TCP and serves the API and the admin endpoints. At
// a stop it first finishes the requests in progress.
//
// Serve is the entry point of `tenantry serve`. `tenantry dev` calls AllowStopDuringStart, Lock,
// Listen and Run itself, because its service uses simulated providers. The package has two HTTP
// servers, both of type runningServer: the API server and the admin server with /metrics, /livez
// and /readyz.
//
//   - serve.go: Serve, Listen and Run, from the settings to a serving process. Start here.
//   - stop.go: runningServer, and how it finishes its requests before the process exits.
//   - admin.go: the admin endpoints.
//   - tls.go: the TLS configuration, and the certificate that is reloaded when its files change.
//   - lock_unix.go, lock_other.go: Lock, which on Unix prevents two processes from using one SQLite
//     database.
//   - openfiles_unix.go, openfiles_other.go: how many files the process may open.
package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/tenantry/tenantry/adapters/httpapi"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/app/wiring"
	"github.com/tenantry/tenantry/core/panics"
)

// Serve listens on the addresses of the settings, assembles the service and runs it until ctx is
// cancelled. It returns an error when the service cannot start, for example when a different
// process has locked the SQLite database. It also returns the errors of Run. If ctx is cancelled
// during the start, Serve returns nil. It ignores SIGHUP.
func Serve(ctx context.Context, c settings.Config, log *slog.Logger) error {
	defer ignoreHangups(log)()
	return AllowStopDuringStart(ctx, log, func(ready func()) error { return serve(ctx, c, log, ready) })
}

// ignoreHangups logs each SIGHUP until stop is called. By default, SIGHUP ends a Go process at
// once. Many operators send SIGHUP to reload files. tenantry reloads credentials, certificates and
// keysets without a signal.
func ignoreHangups(log *slog.Logger) (stop func()) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	panics.Go(func() {
		for range hangups {
			log.Info("SIGHUP is ignored: changed credential files, certificates and keysets are loaded without it, and changed settings need a restart")
		}
	}, func(e *panics.Error) {
		log.Error("SIGHUP is ignored without a log line from now on", "error", e, "stack", e.Stack)
	})
	return func() {
		signal.Stop(hangups)
		close(hangups)
	}
}

// AllowStopDuringStart calls run and returns its error. If ctx is cancelled before run calls ready,
// AllowStopDuringStart logs the error and returns nil, because a stop during the start is not a
// failure.
func AllowStopDuringStart(ctx context.Context, log *slog.Logger, run func(ready func()) error) error {
	isReady := false
	err := run(func() { isReady = true })
	if err != nil && ctx.Err() != nil && !isReady {
		log.Info("stopped during the start", "error", err)
		return nil
	}
	return err
}

// serve does the work of Serve. Unlike Serve, it can return an error if ctx is cancelled before it
// calls ready.
func serve(ctx context.Context, c settings.Config, log *slog.Logger, ready func()) error {
	if path, embedded := strings.CutPrefix(c.DatabaseURL, "sqlite://"); embedded {
		release, err := Lock(path)
		if err != nil {
			return err
		}
		defer func() { _ = release() }()
	}
	certificate, err := loadCertificate(c, log)
	if err != nil {
		return err
	}
	api, err := Listen(ctx, c.Listen)
	if err != nil {
		return err
	}
	admin, err := Listen(ctx, c.AdminListen)
	if err != nil {
		return errors.Join(err, api.Close())
	}
	scheme, overrides, tlsConfig := "http://", wiring.Overrides{}, (*tls.Config)(nil)
	if certificate != nil {
		scheme, overrides.ServerCertificate, tlsConfig = "https://", certificate.read, certificate.tlsConfig()
	}
	publicURL := cmp.Or(c.PublicURL, scheme+api.Addr().String())
	s, err := assemble(ctx, c, log, publicURL, overrides)
	if err != nil {
		return errors.Join(err, api.Close(), admin.Close())
	}
	s.WarnOfMissingMailPlatform(ctx, c.Providers)
	s.WarnOfMissingKeys(ctx, c.KeysetFile)
	log.Info("serving", "api", scheme+api.Addr().String(), "admin", "http://"+admin.Addr().String(), "version", cli.Version)
	return Run(ctx, s, api, admin, tlsConfig, ready)
}

// assemble assembles the service. On SQLite, it also releases the leases that a previous process
// left.
func assemble(ctx context.Context, c settings.Config, log *slog.Logger, publicURL string, overrides wiring.Overrides) (*wiring.Service, error) {
	s, err := wiring.Assemble(ctx, c, log, publicURL, overrides)
	if err != nil {
		return nil, err
	}
	if err := s.FinishInterrupted(ctx, c.DatabaseURL); err != nil {
		return nil, errors.Join(wiring.DatabaseError(err), s.Close(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// Listen returns a listener on a TCP address. It fails when the address is invalid or in use. The
// error tells the operator how to fix it.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, cli.WithFix(fmt.Errorf("listen on %s: %w", address, err), "stop what listens there, or choose another address")
	}
	return l, nil
}

// catalogInterval is the time between two reads of the plugin catalog. The service notices the
// upgrade of a plugin within this time.
const catalogInterval = 2 * time.Second

// adminConnections is the maximum number of connections to the admin listener.
const adminConnections = 200

// maxConnections returns max_connections, but at most half of the number of files that the process
// may open. The other half is for database connections and plugins. It returns at least 2.
func maxConnections(s *wiring.Service) int {
	files := maxOpenFiles()
	if s.APIConnections.Max <= files/2 {
		return s.APIConnections.Max
	}
	accepted := max(2, files/2)
	s.Log.Warn("fewer connections than max_connections are accepted, because the system limits the open files of the process",
		"max_connections", s.APIConnections.Max, "accepted", accepted, "open_files", files)
	return accepted
}

// Run serves the API on one listener and the admin handler on the other until ctx is cancelled.
// Then it lets requests in progress finish, and closes the service and both listeners. It calls
// ready once both servers accept requests. If tlsConfig is nil, the API is served over plain HTTP.
//
// Run returns an error when the jobs do not start or a listener fails. It also returns an error
// when requests or jobs did not finish in time, or when the service does not close cleanly.
func Run(ctx context.Context, s *wiring.Service, api, admin net.Listener, tlsConfig *tls.Config, ready func()) error {
	if s.RunsJobs {
		// If ctx is cancelled now, the jobs still start. They then stop together with the servers.
		if err := s.Queue.Start(context.WithoutCancel(ctx), s.QueueWork()); err != nil {
			err = wiring.DatabaseError(fmt.Errorf("start the jobs: %w", err))
			stopCtx, cancelStop := context.WithTimeout(context.WithoutCancel(ctx), s.DrainTime)
			defer cancelStop()
			// Start can fail after it has started River, if the first wake-ups cannot be stored.
			// StopQueue stops River, because Close waits for the connections that River uses.
			return errors.Join(err, api.Close(), admin.Close(), s.StopQueue(stopCtx), s.Close(stopCtx))
		}
		s.WebhookWorker.Start()
	}
	backgroundCtx, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBackground()
	panics.Go(func() { s.KeyUses.Run(backgroundCtx) }, func(e *panics.Error) {
		s.Log.Error("the times of the last use of API keys are no longer stored", "error", e, "stack", e.Stack)
	})
	panics.Go(func() { s.Host.Watch(backgroundCtx, catalogInterval) }, func(e *panics.Error) {
		s.Log.Error("plugin upgrades now need a restart, because the catalog is no longer read", "error", e, "stack", e.Stack)
	})
	s.APIConnections.Max = maxConnections(s)
	apiServer := startServer(ctx, api, tlsConfig, s.APIConnections, closeConnsWhileDraining(s, s.Handler()), s.Log)
	adminServer := startServer(ctx, admin, nil, &httpapi.ConnectionLimit{Max: adminConnections}, adminHandler(s), s.Log)
	ready()
	var err error
	select {
	case <-ctx.Done():
	case <-apiServer.ended:
		err = apiServer.serveErr
	case <-adminServer.ended:
		err = adminServer.serveErr
	}
	return errors.Join(err, stop(ctx, s, apiServer, adminServer))
}
