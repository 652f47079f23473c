// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"log/slog"
	"net"
	"net/http"
	"testing"
)

// TestTakenAddressIsReplacedByAFreePort checks that a second sandbox starts while a first one uses
// the default address of the control interface.
func TestTakenAddressIsReplacedByAFreePort(t *testing.T) {
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", anyPort)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	env := &Environment{log: slog.New(slog.DiscardHandler)}
	url, err := env.listen(t.Context(), taken.Addr().String(), http.NotFoundHandler())
	if err != nil || url == "http://"+taken.Addr().String() {
		t.Fatalf("listens on %s, %v", url, err)
	}
	if err := env.Close(); err != nil {
		t.Error(err)
	}
	if _, err := env.listen(t.Context(), "nonsense", http.NotFoundHandler()); err == nil {
		t.Error("an invalid address is replaced too")
	}
}
