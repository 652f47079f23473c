// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/wire"
)

// failureRecorder is a testing.TB that records the failures of Error, Errorf and Fatalf and does
// not fail the embedded test with them. Its cleanups run when the embedded test ends.
type failureRecorder struct {
	testing.TB
	mu       sync.Mutex
	messages []string
}

func (r *failureRecorder) record(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.messages = append(r.messages, text)
}

func (r *failureRecorder) Error(args ...any)                 { r.record(fmt.Sprint(args...)) }
func (r *failureRecorder) Errorf(format string, args ...any) { r.record(fmt.Sprintf(format, args...)) }
func (r *failureRecorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// TestSuitesReportFaultyPlugins runs single checks against plugins that must fail the check.
func TestSuitesReportFaultyPlugins(t *testing.T) {
	oldStopTimeout := stopTimeout
	stopTimeout = time.Second // a plugin that outlives its host makes its check wait this long
	t.Cleanup(func() { stopTimeout = oldStopTimeout })
	pluginNamed := func(program, name string) Binary {
		path := filepath.Join(t.TempDir(), name)
		if err := os.Symlink(testserver.Program(t, "testdata/"+program), path); err != nil {
			t.Fatal(err)
		}
		return Binary{Path: path, Connect: func(string) sdk.Connection {
			return sdk.Connection{Settings: map[string]string{"do": "bare"}}
		}}
	}
	for _, tc := range []struct {
		name   string
		checks []check
		check  string
		plugin Binary
		want   string
	}{
		{"the plugin crashes at the start", pluginChecks, "plugin/describe/complete", pluginNamed("puppet", "mail-crashes"), "start"},
		{"the plugin has a different protocol version", pluginChecks, "plugin/describe/complete", pluginNamed("hostile", "mail-liar"), "protocol version"},
		{"the plugin has no version", pluginChecks, "plugin/describe/complete", pluginNamed("hostile", "mail-giant"), "version"},
		{"the name of the plugin is invalid", pluginChecks, "plugin/describe/complete", pluginNamed("puppet", "mail-Odd Name"), "provider's id"},
		{"the plugin has no commands", pluginChecks, "plugin/commands/describe", pluginNamed("hostile", "mail-giant"), "exits"},
		{"the plugin outlives its host", pluginChecks, "plugin/process/exits", pluginNamed("hostile", "mail-giant"), "the host kills it after 2s"},
		{"the errors of the plugin have no kind", failureChecks("mail"), "mail/failures/nothing-listens", pluginNamed("puppet", "mail-puppet"), "want [down]"},
		{"the plugin panics", failureChecks("mail"), "mail/failures/html-page", pluginNamed("puppet", "mail-puppet"), "did not classify"},
		{"the plugin returns without an answer", failureChecks("mail"), "mail/failures/deadline", pluginNamed("puppet", "mail-puppet"), "returned"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			recorder := &failureRecorder{TB: t}
			for _, c := range tc.checks {
				if c.ID == tc.check {
					done := make(chan struct{})
					go func() {
						defer close(done)
						c.Run(recorder, tc.plugin)
					}()
					<-done
				}
			}
			if messages := strings.Join(recorder.messages, "\n"); !strings.Contains(messages, tc.want) {
				t.Fatalf("the suite does not report %q:\n%s", tc.want, messages)
			}
		})
	}
}

// TestEveryCheckHasAnID checks that each check of the suite has an id for --only and --skip, and a
// text that says what the check proves.
func TestEveryCheckHasAnID(t *testing.T) {
	for _, kind := range []string{"", "mail", "dns", "sending"} {
		idPattern, listedIDs := regexp.MustCompile(`^(plugin|`+cmp.Or(kind, "plugin")+`)(/[a-z0-9]+(-[a-z0-9]+)*){2}$`), map[string]bool{}
		for _, c := range List(kind) {
			if !idPattern.MatchString(c.ID) || listedIDs[c.ID] || c.Proves == "" {
				t.Errorf("kind %q: the check %q has an invalid id, is listed twice or has no text: %q", kind, c.ID, c.Proves)
			}
			listedIDs[c.ID] = true
		}
		if len(listedIDs) < 5 {
			t.Errorf("kind %q has only %d checks, want at least 5", kind, len(listedIDs))
		}
	}
}

// TestFieldsThatMustBeSecretAreRecognized checks which fields the suite takes for secrets.
func TestFieldsThatMustBeSecretAreRecognized(t *testing.T) {
	for _, tc := range []struct {
		field        sdk.Field
		mustBeSecret bool
	}{
		{sdk.Field{Name: "api_token"}, true},
		{sdk.Field{Name: "client_secret"}, true},
		{sdk.Field{Name: "client_secret", Default: "changeme"}, true},
		{sdk.Field{Name: "token_url"}, false},
		{sdk.Field{Name: "token_endpoint", Default: "https://login.acme.com/token"}, false},
		{sdk.Field{Name: "use_tokens", Default: "true"}, false},
		{sdk.Field{Name: "password_login", Default: "false"}, false},
		{sdk.Field{Name: "api_url"}, false},
	} {
		tc.field.Help = "help"
		recorder := &failureRecorder{TB: t}
		checkFields(recorder, []sdk.Field{tc.field})
		if reported := strings.Contains(strings.Join(recorder.messages, ""), "not marked as secret"); reported != tc.mustBeSecret || len(recorder.messages) > 1 {
			t.Errorf("%+v: the suite reports %q, want a report that the field is not marked as secret: %v", tc.field, recorder.messages, tc.mustBeSecret)
		}
	}
}

// TestCapabilitiesAndNameServersAreChecked checks valid descriptions of each kind of plugin, and
// descriptions with one mistake each.
func TestCapabilitiesAndNameServersAreChecked(t *testing.T) {
	fields := []sdk.Field{{Name: "partner"}}
	for _, tc := range []struct {
		description sdk.Description
		want        string
	}{
		{sdk.Description{Kind: "mail"}, ""},
		{sdk.Description{Kind: "dns", Capabilities: []string{"atomic", "conditional"}, NameServers: []string{"*.ns.acme.com", "ns1.acme.com"}}, ""},
		{sdk.Description{Kind: "sending", Capabilities: []string{sdk.CanOAuth, sdk.CanRefresh}, Needs: map[string][]string{sdk.CanOAuth: {"partner"}}, FaultDomain: sdk.FaultCredential}, ""},
		{sdk.Description{Kind: "mail", Capabilities: []string{"atomic"}}, `"atomic" is not one of`},
		{sdk.Description{Kind: "dns", Capabilities: []string{sdk.CanOAuth}}, `is not one of ["atomic" "conditional"]`},
		{sdk.Description{Kind: "sending", Capabilities: []string{"mailbox_warmup"}}, `"mailbox_warmup" is not one of`},
		{sdk.Description{Kind: "dns", Capabilities: []string{"atomic", "atomic"}}, "is listed twice"},
		{sdk.Description{Kind: "sending", Needs: map[string][]string{sdk.CanOAuth: {"partner"}}}, "does not list"},
		{sdk.Description{Kind: "sending", Capabilities: []string{sdk.CanOAuth}, Needs: map[string][]string{sdk.CanOAuth: {"password"}}}, "which is not a field"},
		{sdk.Description{Kind: "sending", FaultDomain: "tenant"}, "fault domain"},
		{sdk.Description{Kind: "dns", FaultDomain: sdk.FaultCredential}, "fault domain"},
		{sdk.Description{Kind: "mail", NameServers: []string{"ns1.acme.com"}}, "only a DNS provider"},
		{sdk.Description{Kind: "dns", NameServers: []string{"*.com"}}, `name server "*.com"`},
		{sdk.Description{Kind: "dns", NameServers: []string{"*.co.uk"}}, `name server "*.co.uk"`},
		{sdk.Description{Kind: "dns", NameServers: []string{"*"}}, `name server "*"`},
		{sdk.Description{Kind: "dns", NameServers: []string{"http://ns.acme.com/"}}, `name server "http`},
		{sdk.Description{Kind: "dns", NameServers: []string{""}}, `name server ""`},
		{sdk.Description{Kind: "dns", NameServers: []string{"ns1.acme.com "}}, `name server "ns1.acme.com "`},
	} {
		tc.description.Fields = fields
		recorder := &failureRecorder{TB: t}
		checkCapabilities(recorder, tc.description)
		checkNameServers(recorder, tc.description)
		if len(recorder.messages) > 1 || (len(recorder.messages) == 0) != (tc.want == "") || !strings.Contains(strings.Join(recorder.messages, ""), tc.want) {
			t.Errorf("%+v: the suite reports %q, want one message with %q", tc.description, recorder.messages, tc.want)
		}
	}
}

// TestEachMemberOfDescribeIsCompared replaces members of the description that the plugin prints.
// The suite must report a member that then differs from the description that the host receives. It
// must ignore an unknown member.
func TestEachMemberOfDescribeIsCompared(t *testing.T) {
	received := sdk.Description{
		Name: "acme", Kind: "mail", Budgets: []sdk.Budget{{Key: "tenant", Limit: 5, Window: time.Minute}},
		MailPlatform: sdk.PlatformFacts{Administrator: "Administrator", BuiltinDomains: []string{"mail.acme.com"}},
	}
	for text, want := range map[string]string{
		`"kind":"mail"`:                                    "",
		`"title":""`:                                       "",
		`"needs":{},"name_servers":[]`:                     "",
		`"later":"a member of a later version"`:            "",
		`"budgets":[]`:                                     "describe prints budgets as []",
		`"budgets":[{"key":"nonsense","limit":-5}]`:        "describe prints budgets as [{Key:nonsense",
		`"name_servers":["ns1.acme.com"]`:                  "describe prints name_servers as [ns1.acme.com]",
		`"fault_domain":"credential"`:                      "describe prints fault_domain as credential",
		`"needs":{"atomic":["api_key"]}`:                   "describe prints needs as map[atomic:[api_key]]",
		`"mail_platform":{"builtin_domains":["acme.com"]}`: "describe prints mail_platform as {BuiltinDomains:[acme.com]",
		`"mail_platform":null`:                             "describe prints mail_platform as {BuiltinDomains:[]",
		`"hosts":["api.acme.com"]`:                         "describe prints hosts as [api.acme.com]",
		`"fields":[{"name":"api_key"}]`:                    "describe prints fields as [{Name:api_key",
	} {
		printed := wire.DocOf(received)
		if err := json.Unmarshal([]byte("{"+text+"}"), &printed); err != nil {
			t.Fatal(err)
		}
		recorder := &failureRecorder{TB: t}
		compareDocs(recorder, printed, wire.DocOf(received))
		if len(recorder.messages) > 1 || (len(recorder.messages) == 0) != (want == "") || !strings.Contains(strings.Join(recorder.messages, ""), want) {
			t.Errorf("%s: the suite reports %q, want one message with %q", text, recorder.messages, want)
		}
	}
}

// TestFactsOfAMailPlatformAreChecked checks a valid description, and descriptions with one mistake
// each.
func TestFactsOfAMailPlatformAreChecked(t *testing.T) {
	for want, change := range map[string]func(description *sdk.Description){
		"":                        func(*sdk.Description) {},
		`mail host "mx.acme.com"`: func(description *sdk.Description) { description.MailPlatform.Hosts.Exchanges = []string{"mx.acme.com"} },
		`mail host ".Dkim.acme.com"`: func(description *sdk.Description) {
			description.MailPlatform.Hosts.Signers = []string{".Dkim.acme.com"}
		},
		`built-in domain ".mail.acme.com"`: func(description *sdk.Description) {
			description.MailPlatform.BuiltinDomains = []string{".mail.acme.com"}
		},
		`application, "token"`: func(description *sdk.Description) { description.MailPlatform.ApplicationField = "token" },
		`application, "app"`:   func(description *sdk.Description) { description.MailPlatform.ApplicationField = "app" },
		"only a mail platform": func(description *sdk.Description) { description.Kind = "dns" },
	} {
		description := sdk.Description{Kind: "mail", Fields: []sdk.Field{{Name: "client_id"}, {Name: "token", Secret: true}}, MailPlatform: sdk.PlatformFacts{
			BuiltinDomains: []string{"mail.acme.com"}, ApplicationField: "client_id",
			Hosts: sdk.PlatformHosts{Exchanges: []string{".mx.acme.com"}, Verification: []string{".proof.invalid"}},
		}}
		change(&description)
		recorder := &failureRecorder{TB: t}
		checkFacts(recorder, description)
		if len(recorder.messages) > 1 || (len(recorder.messages) == 0) != (want == "") || !strings.Contains(strings.Join(recorder.messages, ""), want) {
			t.Errorf("the suite reports %q, want one message with %q", recorder.messages, want)
		}
	}
}
