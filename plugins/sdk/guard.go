// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"github.com/tenantry/tenantry/core/egress"
)

// ErrPrivateAddress is what dialing an address that is not public ends in.
var ErrPrivateAddress = errors.New("the host has no public address")

// NewDialer makes the dialer for a host that an account named. It dials public
// unicast addresses only, and looks at the address itself, after any name was
// looked up. allowPrivate lifts that; only the operator may ask for it.
func NewDialer(timeout time.Duration, allowPrivate bool) *net.Dialer {
	d := &net.Dialer{Timeout: timeout}
	if !allowPrivate {
		d.Control = func(_, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil || !egress.Public(at.Addr()) {
				return ErrPrivateAddress
			}
			return nil
		}
	}
	return d
}

// NewGuardedHTTPClient is NewHTTPClient for a host that an account named: it
// dials as NewDialer does.
func NewGuardedHTTPClient(timeout time.Duration, allowPrivate bool) *http.Client {
	transport := plainTransport()
	transport.DialContext = NewDialer(10*time.Second, allowPrivate).DialContext
	return newHTTPClient(timeout, transport)
}
