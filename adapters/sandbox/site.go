// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// site is an HTTP listener on loopback. Whoever reaches it commands the whole
// sandbox, so it is never anywhere else, and pages that a browser on this
// machine happens to show cannot post to it.
type site struct {
	url    string
	server *http.Server
	cancel context.CancelFunc
	done   chan error
}

func openSite(ctx context.Context, h http.Handler) (*site, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen on loopback: %w", err)
	}
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &site{url: "http://" + l.Addr().String(), cancel: cancel, done: make(chan error, 1)}
	s.server = &http.Server{
		Handler:           http.NewCrossOriginProtection().Handler(h),
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return base },
	}
	go func() { s.done <- s.server.Serve(l) }()
	return s, nil
}

// close lets calls under way end, for a moment.
func (s *site) close() error {
	grace, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if s.server.Shutdown(grace) != nil {
		s.cancel()
		_ = s.server.Close()
	}
	s.cancel()
	if err := <-s.done; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
