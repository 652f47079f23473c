// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/wire"
)

// sendingAs are platforms of which only the description matters.
func sendingAs(settings map[string]map[string]string, all ...wire.Description) *sendingProviders {
	p := &sendingProviders{routes: map[string]sendingRoute{}, known: map[string]wire.Description{}, operator: connections{settings: settings}}
	for _, about := range all {
		p.routes[about.Name], p.known[about.Name] = sendingRoute{}, about
	}
	return p
}

var partnered = wire.Description{
	Name: "partnered", Capabilities: []string{"microsoft_oauth", "mailbox_refresh"},
	Needs: map[string][]string{"microsoft_oauth": {"partner_password", "allow_passwords"}},
	Fields: []wire.Field{
		{Name: "api_key", Account: true, Secret: true, Required: true}, {Name: "workspace_id", Account: true},
		{Name: "partner_password", Account: true, Secret: true}, {Name: "allow_passwords", Default: "false"}, {Name: "base_url"},
	},
}

func TestCredentialsAsOneText(t *testing.T) {
	p := sendingAs(nil, partnered)
	for text, want := range map[string]string{
		"k3y":             "api_key=k3y",
		" k3y\n":          "api_key=k3y",
		`{"api_key":"k"}`: "api_key=k",
		`{"api_key":"k","workspace_id":"w","partner_password":" "}`: "api_key=k workspace_id=w",
		`{"api_key":"k","partner_password":"p"}`:                    "api_key=k partner_password=p",
		"https://host.example#to|ken":                               "api_key=https://host.example#to|ken",
	} {
		c, err := p.Read(t.Context(), "partnered", secret.New(text))
		var got []string
		for _, f := range partnered.Fields {
			if value := c.Settings[f.Name] + c.Secrets[f.Name].Reveal(); value != "" {
				got = append(got, f.Name+"="+value)
			}
		}
		if strings.Join(got, " ") != want || err != nil {
			t.Errorf("%s: read as %v, %v", text, got, err)
		}
		if c.Secrets["workspace_id"].Reveal() != "" || c.Settings["api_key"] != "" || c.Settings["partner_password"] != "" {
			t.Errorf("%s: a secret is a setting, or the other way round", text)
		}
	}
}

// TestCredentialsThatMakeNoSense: none of what was given is repeated, as any of
// it may be a secret.
func TestCredentialsThatMakeNoSense(t *testing.T) {
	p := sendingAs(nil, partnered)
	for _, text := range []string{
		"", "  ", "{}", `{"api_key":""}`, `{"api_key":"s3cret","s3cret":"s3cret"}`, `{"api_key":"s3cret","base_url":"s3cret"}`,
		`{"api_key":["s3cret"]}`, `{"api_key":"s3cret"`, `{"api_key":"s3cret"} s3cret`, `{"partner_password":"s3cret"}`, `{"api_key":7}`,
	} {
		_, err := p.Read(t.Context(), "partnered", secret.New(text))
		var refusal *fault.Error
		if !errors.Is(err, fault.InvalidRequest) || !errors.As(err, &refusal) || len(refusal.Fields) != 1 || refusal.Fields[0].Location != "body.api_key" {
			t.Errorf("%s: %v", text, err)
		}
		if strings.Contains(fmt.Sprintf("%+v %#v", err, refusal), "s3cret") {
			t.Errorf("%s is repeated: %+v", text, refusal)
		}
	}
	if _, err := p.Read(t.Context(), "nowhere", secret.New("x")); !errors.Is(err, fault.UnknownProvider) {
		t.Errorf("an unknown provider: %v", err)
	}
}

// TestCapabilities: from the description, the fields that were given, and what
// the operator set.
func TestCapabilities(t *testing.T) {
	for _, tt := range []struct {
		allow string
		given []string
		oauth bool
	}{
		{"", []string{"api_key", "partner_password"}, false},
		{"false", []string{"api_key", "partner_password"}, false},
		{"true", []string{"api_key"}, false},
		{"true", []string{"api_key", "partner_password"}, true},
		{"true", []string{"api_key", "partner_password", "allow_passwords"}, true},
		{"", []string{"api_key", "partner_password", "allow_passwords"}, false},
	} {
		p := sendingAs(map[string]map[string]string{"partnered": {"allow_passwords": tt.allow}}, partnered)
		got := p.Capabilities(t.Context(), "partnered", tt.given)
		if want := (integration.Capabilities{MicrosoftOAuth: tt.oauth, MailboxRefresh: true}); got != want {
			t.Errorf("allowed %q, given %v: %+v", tt.allow, tt.given, got)
		}
	}
	p := sendingAs(nil, partnered)
	if got := p.Capabilities(t.Context(), "nowhere", []string{"api_key"}); got != (integration.Capabilities{}) {
		t.Errorf("a provider without a plugin can %+v", got)
	}
}

// TestAuthHosts: the plugin's, unless the operator set others; none where the
// plugin names none, so no link is shown.
func TestAuthHosts(t *testing.T) {
	linking, none := partnered, partnered
	linking.Name, none.Name = "linking", "none"
	linking.Fields = append(slices.Clone(partnered.Fields), wire.Field{Name: wire.AuthHosts, Default: "login.example"})
	for set, want := range map[string]string{"": "[login.example]", "a.example:8443,  b.example": "[a.example:8443 b.example]"} {
		p := sendingAs(map[string]map[string]string{"linking": {wire.AuthHosts: set}, "none": {wire.AuthHosts: set}}, linking, none)
		all, err := p.Platforms(t.Context())
		if err != nil || len(all) != 2 || fmt.Sprint(all[0].AuthHosts) != want || len(all[1].AuthHosts) != 0 {
			t.Errorf("set %q: %v, %v", set, all, err)
		}
	}
}

// TestFaultDomains: circuits are told apart as the plugin says, so that alerts
// know whose trouble it is.
func TestFaultDomains(t *testing.T) {
	instances := partnered
	instances.Name, instances.FaultDomain = "instances", wire.FaultCredential
	p := sendingAs(nil, partnered, instances)
	for provider, want := range map[string]string{"partnered": "provider", "instances": "credential", "silent": "provider"} {
		if got := p.domain(provider); got != want {
			t.Errorf("%s: %s", provider, got)
		}
	}
}
