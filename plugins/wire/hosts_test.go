// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"log/slog"
	"slices"
	"testing"

	"google.golang.org/grpc"

	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/proto"
)

func TestHostsOfACallComeFromItsConnection(t *testing.T) {
	d := Description{Hosts: []string{
		"API.acme.com.", "*.Acme.net", "{url}", "{address}", "{name}", "{path}", "{ipv6}", "{ipv6_brackets}", "{ipv6_port}",
		"{key}", "{token}", "{missing}", "{invalid}", "{pattern}",
	}}
	got := d.HostsOf(Connection{
		Settings: map[string]string{
			"url": " https://user@One.test:8443/v1?x=y ", "address": "two.test:53", "name": "three.test", "path": "four.test/v1",
			"ipv6": "2001:db8::1", "ipv6_brackets": "[2001:db8::2]", "ipv6_port": "[2001:db8::3]:53",
			"invalid": "http://[::1", "pattern": "https://*.test/v1", "not_named": "https://other.test",
		},
		Secrets: map[string]secret.Text{
			"key": secret.New("https://five.test#9|100%zz"), "token": secret.New("token.test"), "not_named_key": secret.New("https://other.test#1"),
		},
	})
	want := []string{
		"api.acme.com", "*.acme.net", "one.test", "two.test", "three.test", "four.test", "2001:db8::1", "2001:db8::2", "2001:db8::3", "five.test",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestReachesShowsTheSettingsOfTheOperator(t *testing.T) {
	d := Description{
		Hosts: []string{"b.Acme.com", "{api_url}", "{login_url}", "{server_url}", "{missing}"},
		Fields: []Field{
			{Name: "api_url", Default: "https://api.acme.com:8443/v1"}, {Name: "login_url"}, {Name: "server_url", Account: true},
		},
	}
	for _, tc := range []struct {
		operator map[string]string // the settings of the operator
		want     []string
	}{
		{nil, []string{"<login_url>", "<missing>", "<server_url of the account>", "api.acme.com", "b.acme.com"}},
		{
			map[string]string{"api_url": "http://127.0.0.1:8080", "login_url": "https://b.acme.com/", "server_url": "https://elsewhere.test"},
			[]string{"127.0.0.1", "<missing>", "<server_url of the account>", "b.acme.com"},
		},
	} {
		if got := d.Reaches(tc.operator); !slices.Equal(got, tc.want) {
			t.Errorf("with the operator's settings %v: got %q, want %q", tc.operator, got, tc.want)
		}
	}
}

func TestMayConnectOnlyToNamedHosts(t *testing.T) {
	ctx := WithHosts(t.Context(), []string{"api.acme.com", "*.acme.net", "127.0.0.1", "::1"})
	for host, want := range map[string]bool{
		"api.acme.com": true, "API.Acme.COM": true, "api.acme.com.": true, "127.0.0.1": true, "::1": true,
		"a.acme.net": true, "a.b.acme.net": true, "acme.net": false, ".acme.net": false, "xacme.net": false,
		"acme.com": false, "x.api.acme.com": false, "api.acme.com.evil.test": false, "": false,
	} {
		if got := MayConnect(ctx, host); got != want {
			t.Errorf("MayConnect to %q is %t, want %t", host, got, want)
		}
	}
	if MayConnect(WithHosts(t.Context(), nil), "api.acme.com") {
		t.Error("a call without hosts may connect to api.acme.com, want it refused")
	}
	if !MayConnect(t.Context(), "api.acme.com") {
		t.Error("a request outside a call may not connect to api.acme.com, want it allowed")
	}
}

// TestACallKnowsItsHosts checks that the server of a plugin passes a context to each call which
// allows only the hosts of the description. A description without hosts allows every host.
func TestACallKnowsItsHosts(t *testing.T) {
	request := &proto.ZoneRequest{Connection: &proto.Connection{Settings: map[string]string{"api_url": "https://api.acme.com"}}}
	for _, tc := range []struct {
		hosts        []string
		otherAllowed bool // whether a host that is not in hosts is allowed
	}{{nil, true}, {[]string{"{api_url}"}, false}} {
		intercept := handleCall(slog.New(slog.DiscardHandler), Description{Hosts: tc.hosts})
		_, err := intercept(t.Context(), request, &grpc.UnaryServerInfo{}, func(ctx context.Context, _ any) (any, error) {
			if !MayConnect(ctx, "api.acme.com") || MayConnect(ctx, "other.test") != tc.otherAllowed {
				t.Errorf("the description names %q: api.acme.com is allowed: %t, other.test: %t, want true and %t", tc.hosts, MayConnect(ctx, "api.acme.com"), MayConnect(ctx, "other.test"), tc.otherAllowed)
			}
			return nil, nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// TestMayConnectToHostWithULabels checks a host whose name can be written with U-labels or with
// A-labels. A setting can have either form, and net/http connects to the A-labels.
func TestMayConnectToHostWithULabels(t *testing.T) {
	d := Description{Hosts: []string{"{url}"}}
	for _, url := range []string{"https://bücher.example", "https://BÜCHER.example:8443/v1", "https://xn--bcher-kva.example"} {
		ctx := WithHosts(t.Context(), d.HostsOf(Connection{Settings: map[string]string{"url": url}}))
		for host, want := range map[string]bool{"bücher.example": true, "xn--bcher-kva.example": true, "XN--BCHER-KVA.example": true, "bucher.example": false} {
			if got := MayConnect(ctx, host); got != want {
				t.Errorf("MayConnect to %q is %t, want %t; the URL is %s", host, got, want, url)
			}
		}
	}
}
