// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// connection returns a connection with an api_key and an instance_url. An empty value leaves the
// field out. allowPrivate is the operator's setting allow_private.
func connection(key, instance string, allowPrivate bool) sdk.Connection {
	conn := sdk.Connection{Settings: map[string]string{}, Secrets: map[string]sdk.Secret{}}
	if key != "" {
		conn.Secrets["api_key"] = sdk.NewSecret(key)
	}
	if instance != "" {
		conn.Settings["instance_url"] = instance
	}
	if allowPrivate {
		conn.Settings["allow_private"] = "true"
	}
	return conn
}

func TestCredentialFormsAreAccepted(t *testing.T) {
	for _, conn := range []sdk.Connection{
		connection("9|tok", "https://Send.customer.example", false),
		connection("9|tok", "send.customer.example", false),
		connection("9|tok", "https://send.customer.example/api/", false),
		connection("https://send.customer.example#9|tok", "", false),
		connection(" https://send.customer.example/#9|tok ", "https://SEND.customer.example", false),
	} {
		created, err := newProcessState().newPlatform(conn)
		if err != nil {
			t.Errorf("the valid settings %v are refused: %v", conn.Settings, err)
			continue
		}
		if p := created.(*platform); p.instance != "https://send.customer.example" || p.token.Reveal() != "9|tok" {
			t.Errorf("%v: the instance is %s, the token has %d characters, want https://send.customer.example and 5", conn.Settings, p.instance, len(p.token.Reveal()))
		}
		if hosts := slices.Compact(description().HostsOf(conn)); !slices.Equal(hosts, []string{"send.customer.example"}) {
			t.Errorf("%v: the plugin may connect to %q, want only send.customer.example", conn.Settings, hosts)
		}
	}
	if created, err := newProcessState().newPlatform(connection("http://127.0.0.1:8025#9|tok", "", true)); err != nil || created.(*platform).instance != "http://127.0.0.1:8025" {
		t.Errorf("http on loopback with allow_private: %v, want the instance http://127.0.0.1:8025", err)
	}
}

func TestInvalidCredentialsAreRefusedWithoutQuotingThem(t *testing.T) {
	for name, conn := range map[string]sdk.Connection{
		"nothing":                           connection("", "", false),
		"no instance":                       connection("9|canary", "", false),
		"no token":                          connection("", "https://canary.example", false),
		"no token after the instance":       connection("https://canary.example#", "", false),
		"an instance and no #":              connection("https://canary.example", "", false),
		"two instances":                     connection("https://canary.example#9|t", "https://other.example", false),
		"http":                              connection("9|t", "http://canary.example", false),
		"http in the key":                   connection("http://canary.example#9|t", "", false),
		"http on loopback":                  connection("9|t", "http://127.0.0.1:8025", false),
		"http to an IP with allow_private":  connection("9|t", "http://10.0.0.1", true),
		"http to a name with allow_private": connection("9|t", "http://localhost", true),
		"a file URL":                        connection("9|t", "file:///etc/canary", false),
		"gopher":                            connection("gopher://canary.example#9|t", "", false),
		"userinfo":                          connection("9|t", "https://canary@a.example", false),
		"userinfo in the key":               connection("https://user:canary@a.example#9|t", "", false),
		"a path":                            connection("9|t", "https://a.example/canary", false),
		"a query":                           connection("9|t", "https://a.example?canary", false),
		"an empty query":                    connection("9|t", "https://a.example?", false),
		"a fragment":                        connection("9|t", "https://a.example#canary", false),
		"no host":                           connection("9|t", "https://", false),
		"a port and no host":                connection("9|t", "https://:443", false),
		"a backslash":                       connection("9|t", `https://a.example\@canary.example`, false),
		"a line in the token":               connection("9|t\r\nX-Canary: 1", "https://a.example", false),
		"a space in the token":              connection("9|canary t", "https://a.example", false),
		"an opaque URL":                     connection("9|t", "https:canary", false),
	} {
		_, err := newProcessState().newPlatform(conn)
		if result := sdk.OutcomeOf(err); result.Kind != sdk.Refused || result.Code.Name != "invalid_request" {
			t.Errorf("%s: %v, want invalid_request", name, err)
		}
		if isInKey := strings.HasSuffix(name, "in the key"); isInKey && !strings.HasPrefix(sdk.OutcomeOf(err).Detail, "api_key") {
			t.Errorf("%s: %v, want an error that names api_key", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: the error quotes the credential: %v", name, err)
		}
	}
	unclearPermission := connection("9|t", "https://a.example", false)
	unclearPermission.Settings["allow_private"] = "maybe"
	if _, err := newProcessState().newPlatform(unclearPermission); sdk.OutcomeOf(err).Code.Name != "invalid_request" {
		t.Errorf("allow_private maybe: %v, want invalid_request", err)
	}
}
