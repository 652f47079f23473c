// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/telemetry"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
)

func serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the API",
		Long: "Serve the API, on an embedded SQLite database unless a PostgreSQL one is set.\n" +
			"It starts without provider settings; what needs a provider then answers 503.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := settings.Load(cmd.Flags(), nil)
			if err != nil {
				return cli.Usage(err)
			}
			log := telemetry.Logger(cmd.ErrOrStderr(), c.Level())
			for _, name := range settings.UnknownVariables(os.Environ()) {
				log.Warn("a variable that is not a setting has no effect", "variable", name)
			}
			return serve(cmd.Context(), c, log)
		},
	}
	settings.Config{}.AddFlags(cmd.Flags())
	return cmd
}

func serve(ctx context.Context, c settings.Config, log *slog.Logger) error {
	if path, embedded := strings.CutPrefix(c.DatabaseURL, "sqlite://"); embedded {
		release, err := soleServer(path)
		if err != nil {
			return err
		}
		defer func() { _ = release() }()
	}
	speaksTLS, err := tlsConfig(c, log)
	if err != nil {
		return err
	}
	api, err := listen(ctx, c.Listen)
	if err != nil {
		return err
	}
	admin, err := listen(ctx, c.AdminListen)
	if err != nil {
		return errors.Join(err, api.Close())
	}
	scheme := "http://"
	if speaksTLS != nil {
		scheme = "https://"
	}
	publicURL := cmp.Or(c.PublicURL, scheme+api.Addr().String())
	s, err := assemble(ctx, c, log, publicURL, outside{})
	if err != nil {
		return errors.Join(err, api.Close(), admin.Close())
	}
	s.tls = speaksTLS
	if err := s.takeUp(ctx, c.DatabaseURL); err != nil {
		return errors.Join(databaseError(err), api.Close(), admin.Close(), s.close(context.WithoutCancel(ctx)))
	}
	log.Info("serving", "api", scheme+api.Addr().String(), "admin", "http://"+admin.Addr().String(), "version", version)
	return s.serveOn(ctx, api, admin, func() {})
}

func listen(ctx context.Context, address string) (net.Listener, error) {
	var plain net.ListenConfig
	plain.SetMultipathTCP(false) // its sockets take no filter, see deafen
	l, err := plain.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, cli.WithFix(fmt.Errorf("listen on %s: %w", address, err), "stop what listens there, or choose another address")
	}
	return l, nil
}

// serveOn serves until ctx ends, then lets requests finish and closes all. It
// says when requests are answered.
func (s *service) serveOn(ctx context.Context, api, admin net.Listener, ready func()) error {
	if !s.idle {
		if err := s.queue.Start(ctx, s.work()); err != nil {
			err = databaseError(fmt.Errorf("start the jobs: %w", err))
			return errors.Join(err, api.Close(), admin.Close(), s.close(context.WithoutCancel(ctx)))
		}
	}
	callers, watch := serveAt(ctx, api, s.tls, s.farewell(s.handler()), s.log), serveAt(ctx, admin, nil, s.adminHandler(), s.log)
	ready()
	var err error
	select {
	case <-ctx.Done():
	case <-callers.ended:
		err = callers.err
	case <-watch.ended:
		err = watch.err
	}
	return errors.Join(err, s.stop(ctx, callers, watch))
}
