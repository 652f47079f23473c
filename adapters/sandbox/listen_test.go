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
// address of the control interface, even if the kernel chose the port. A different address can be
// configured.
func TestControlInterfaceKeepsItsAddress(t *testing.T) {
	occupied, free := listenOn(t, "127.0.0.4:0"), listenOn(t, "127.0.0.4:0")
	freeAddr := free.Addr().String()
	_ = free.Close()
	for _, tc := range []struct{ name, configured, prefix string }{
		{"port 0", "127.0.0.2:0", "http://127.0.0.2:"},
		{"a taken address", occupied.Addr().String(), "http://127.0.0.1:"},
		{"a free address", freeAddr, "http://" + freeAddr},
	} {
		t.Run(tc.name, func(t *testing.T) {
			data := t.TempDir()
			first := controlURL(t, data, tc.configured)
			if !strings.HasPrefix(first, tc.prefix) || first == "http://"+occupied.Addr().String() {
				t.Fatalf("with the address %q it listens on %s, want an address that begins with %s", tc.configured, first, tc.prefix)
			}
			if second := controlURL(t, data, tc.configured); second != first {
				t.Errorf("after a restart it listens on %s, before on %s", second, first)
			}
			if other := controlURL(t, data, "127.0.0.3:0"); !strings.HasPrefix(other, "http://127.0.0.3:") {
				t.Errorf("a different address is configured, but it listens on %s", other)
			}
		})
	}
}

// controlURL starts and stops the control interface of a sandbox and returns its address.
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
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// TestInvalidAddressIsAnError checks that an invalid address is not replaced by a free port, unlike an
// address that is in use.
func TestInvalidAddressIsAnError(t *testing.T) {
	env := &Environment{log: slog.New(slog.DiscardHandler)}
	if url, err := env.listen(t.Context(), http.NotFoundHandler(), "nonsense"); err == nil {
		t.Errorf("the server listens on %s, want an error", url)
	}
}
