// SPDX-License-Identifier: Apache-2.0

package testserver_test

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	wire "github.com/miekg/dns"

	"github.com/tenantry/tenantry/adapters/testserver"
)

func TestDNSServersAnswerAndLeaveNothing(t *testing.T) {
	t.Setenv("TMPDIR", sharedTempDir(t))
	powerDNS, err := testserver.StartPowerDNS(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bind, err := testserver.StartBIND(t.Context(), "one.test", "two.test")
	if err != nil {
		powerDNS.Stop()
		t.Fatal(err)
	}
	client := wire.Client{Timeout: 4 * time.Minute} // the default is 2 s
	for _, zone := range []string{"one.test.", "two.test."} {
		question := new(wire.Msg).SetQuestion(zone, wire.TypeSOA)
		answer, _, err := client.Exchange(question, bind.Addr)
		if err != nil || !answer.Authoritative || len(answer.Answer) != 1 {
			t.Errorf("BIND answers %v, %v, want one authoritative SOA record", answer, err)
		}
	}
	if answer, _, err := client.Exchange(new(wire.Msg).SetQuestion("one.test.", wire.TypeSOA), powerDNS.DNS); err != nil || answer.Rcode != wire.RcodeRefused {
		t.Errorf("PowerDNS, which has no zones, answers %v, %v, want REFUSED", answer, err)
	}
	powerDNS.Stop()
	bind.Stop()
	api, err := url.Parse(powerDNS.API)
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range []string{api.Host, powerDNS.DNS, bind.Addr} {
		if conn, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
			_ = conn.Close()
			t.Errorf("after the stop a server listens on %s", addr)
		}
	}
	remaining, _ := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "tenantry-*"))
	if len(remaining) > 0 {
		t.Errorf("the stopped servers left the files %s", strings.Join(remaining, ", "))
	}
}
