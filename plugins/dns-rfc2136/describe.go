// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/base64"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	wire "github.com/miekg/dns"

	"github.com/tenantry/tenantry/plugins/sdk"
)

const (
	version     = "0.1.0"
	algorithm   = "hmac-sha256"
	callTimeout = 15 * time.Second
	maxZones    = 200
)

func description() sdk.Description {
	return sdk.Description{
		Name: "rfc2136", Kind: "dns", Version: version, Title: "Dynamic update (RFC 2136)",
		// There are no patterns in NameServers, because any name server can accept updates.
		Capabilities: []string{"atomic", "conditional"},
		Hosts:        []string{"{server}"},
		Fields: []sdk.Field{
			{Name: "server", Account: true, Required: true, Help: "the zones' primary server, such as ns1.example.com or ns1.example.com:53"},
			{Name: "zones", Account: true, Required: true, Help: "the zones that the key may transfer and update, such as example.com,example.net"},
			{Name: "key_name", Account: true, Required: true, Help: "name of the TSIG key"},
			{Name: "key_secret", Account: true, Required: true, Secret: true, Help: "secret of the TSIG key, in base64"},
			{Name: "key_algorithm", Account: true, Default: algorithm, Help: "hmac-sha256, hmac-sha384 or hmac-sha512"},
			{Name: "allow_private", Default: "false", Help: "call servers on private addresses too; for test systems"},
		},
	}
}

// provider implements sdk.DNSProvider for one connection.
type provider struct {
	server    string // host and port
	zones     []string
	key       string            // fully qualified name of the TSIG key
	secrets   map[string]string // maps the key name to the TSIG secret in base64, the form for miekg/dns
	algorithm string
	dialer    *sdk.Dialer
	timeout   time.Duration // of one transfer or update, including the time to connect
}

// newProvider returns the provider for a connection. It fails if a setting or the key is invalid.
func newProvider(conn sdk.Connection) (sdk.DNSProvider, error) {
	p := &provider{server: strings.TrimSpace(conn.Settings["server"]), timeout: callTimeout}
	if host, port, err := net.SplitHostPort(p.server); err != nil {
		p.server = net.JoinHostPort(strings.Trim(p.server, "[]"), "53")
	} else if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || host == "" {
		return nil, sdk.Misconfigured("server", "it must be a host such as ns1.example.com, optionally with a port")
	}
	if p.server == ":53" || strings.ContainsAny(p.server, " /@") {
		return nil, sdk.Misconfigured("server", "it must be a host such as ns1.example.com, optionally with a port")
	}
	for _, zone := range strings.FieldsFunc(conn.Settings["zones"], func(r rune) bool { return r == ',' || r == ' ' }) {
		if _, ok := wire.IsDomainName(zone); !ok {
			return nil, sdk.Misconfigured("zones", "it must be a list of names such as example.com, separated by commas")
		}
		p.zones = append(p.zones, sdk.PlainName(zone))
	}
	if len(p.zones) == 0 || len(p.zones) > maxZones {
		return nil, sdk.Misconfigured("zones", "it must have between 1 and "+strconv.Itoa(maxZones)+" names")
	}
	allowPrivate, err := strconv.ParseBool(cmp.Or(conn.Settings["allow_private"], "false"))
	if err != nil {
		return nil, sdk.Misconfigured("allow_private", "it must be true or false")
	}
	p.dialer = sdk.NewDialer(callTimeout, allowPrivate)
	return p, p.readTSIGKey(conn)
}

// readTSIGKey checks the TSIG key and stores it in p.
func (p *provider) readTSIGKey(connection sdk.Connection) error {
	name := strings.TrimSpace(connection.Settings["key_name"])
	if _, ok := wire.IsDomainName(name); !ok || name == "" {
		return sdk.Misconfigured("key_name", "it is missing or is not a name")
	}
	p.key = wire.CanonicalName(name)
	p.algorithm = strings.ToLower(wire.Fqdn(cmp.Or(connection.Settings["key_algorithm"], algorithm)))
	if !slices.Contains([]string{wire.HmacSHA256, wire.HmacSHA384, wire.HmacSHA512}, p.algorithm) {
		return sdk.Misconfigured("key_algorithm", "it must be hmac-sha256, hmac-sha384 or hmac-sha512")
	}
	secret := strings.TrimSpace(connection.Secrets["key_secret"].Reveal())
	if raw, err := base64.StdEncoding.DecodeString(secret); err != nil || len(raw) == 0 {
		return sdk.Misconfigured("key_secret", "it is missing or is not base64")
	}
	p.secrets = map[string]string{p.key: secret}
	return nil
}
