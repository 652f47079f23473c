// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// TestControlInterfaceKeepsItsAddress checks that a restart with the same data does not change the
// address of the control interface, even if the kernel chose the port. It also checks that a
// changed setting changes the address.
func TestControlInterfaceKeepsItsAddress(t *testing.T) {
	occupied, free := listenOn(t, "127.0.0.4:0"), listenOn(t, "127.0.0.4:0")
	freeAddr := free.Addr().String()
	_ = free.Close()
	for _, tc := range []struct{ name, configured, wantPrefix string }{
		{"port 0", "127.0.0.2:0", "http://127.0.0.2:"},
		{"a taken address", occupied.Addr().String(), "http://127.0.0.1:"},
		{"a free address", freeAddr, "http://" + freeAddr},
	} {
		t.Run(tc.name, func(t *testing.T) {
			data := t.TempDir()
			firstURL := controlURL(t, data, tc.configured)
			if !strings.HasPrefix(firstURL, tc.wantPrefix) || firstURL == "http://"+occupied.Addr().String() {
				t.Fatalf("with the setting %q the control interface has the URL %s, want one that begins with %s", tc.configured, firstURL, tc.wantPrefix)
			}
			if restartedURL := controlURL(t, data, tc.configured); restartedURL != firstURL {
				t.Errorf("after a restart the URL is %s, want the same URL %s", restartedURL, firstURL)
			}
			if changedURL := controlURL(t, data, "127.0.0.3:0"); !strings.HasPrefix(changedURL, "http://127.0.0.3:") {
				t.Errorf("after the setting changed to 127.0.0.3 the URL is %s", changedURL)
			}
		})
	}
}

// controlURL starts and stops the control interface of a sandbox and returns its URL.
func controlURL(t *testing.T, data, configured string) string {
	t.Helper()
	addresses, err := openAddresses(filepath.Join(data, "addresses.json"))
	if err != nil {
		t.Fatal(err)
	}
	env := &Environment{log: slog.New(slog.DiscardHandler), options: Options{ControlAddr: configured}, addresses: addresses}
	url, err := env.listenControl(t.Context(), http.NotFoundHandler())
	if err != nil {
		t.Fatal(err)
	}
	if err := env.Close(); err != nil {
		t.Fatal(err)
	}
	return url
}

func listenOn(t *testing.T, addr string) net.Listener {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

// TestInvalidAddressIsAnError checks that an invalid address is an error. An address that is in use
// is replaced by a free address instead.
func TestInvalidAddressIsAnError(t *testing.T) {
	env := &Environment{log: slog.New(slog.DiscardHandler)}
	if url, err := env.listen(t.Context(), http.NotFoundHandler(), "nonsense"); err == nil {
		t.Errorf("the server listens on %s, want an error", url)
	}
}
