// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/wire"
)

var (
	providerID = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
	fieldName  = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	domainName = regexp.MustCompile(`^[a-z0-9-]+(\.[a-z0-9-]+)+$`)
)

var pluginChecks = []check{
	{ID: "plugin/describe/complete", Proves: "the description is complete and valid", Run: func(t T, b Binary) {
		description := describe(t, b.Start(t))
		if !providerID.MatchString(description.Name) {
			t.Errorf("the name %q is not a provider's id (%s)", description.Name, providerID)
		}
		if description.Kind != wire.KindMail && description.Kind != wire.KindDNS && description.Kind != wire.KindSending {
			t.Errorf("the kind is %q, want mail, dns or sending", description.Kind)
		}
		if description.Version == "" || description.Title == "" {
			t.Errorf("the version %q or the title %q is empty", description.Version, description.Title)
		}
		checkNameServers(t, description)
		checkCapabilities(t, description)
		checkFields(t, description.Fields)
		checkBudgets(t, description)
		checkHosts(t, description)
		checkFacts(t, description)
	}},
	{ID: "plugin/commands/describe", Proves: "describe and --version match the description", Run: func(t T, b Binary) {
		description := describe(t, b.Start(t))
		var printed wire.DescriptionDoc
		stdout, _ := runWithoutHost(t, b, 0, "describe")
		if err := json.Unmarshal(stdout, &printed); err != nil {
			t.Fatalf("describe does not print one JSON object with the members of Description in plugin.proto, and nothing else, on standard output: %v", err)
		}
		compareDocs(t, printed, wire.DocOf(description))
		if stdout, _ := runWithoutHost(t, b, 0, "--version"); !bytes.Contains(stdout, []byte(description.Version)) {
			t.Errorf("--version prints %q, which does not contain the version %s", stdout, description.Version)
		}
	}},
	{ID: "plugin/commands/without-host", Proves: "if it is started by hand, it exits with 2 and says that it is a plugin", Run: func(t T, b Binary) {
		stdout, stderr := runWithoutHost(t, b, 2)
		if !bytes.Contains(bytes.ToLower(append(stdout, stderr...)), []byte("plugin")) {
			t.Errorf("the plugin prints %q and %q, which do not contain the word plugin", stdout, stderr)
		}
	}},
	{ID: "plugin/process/starts", Proves: "it starts within 30 seconds", Run: checkStart},
	{ID: "plugin/process/exits", Proves: "it exits when its host closes its standard input", Run: checkExit},
	{ID: "plugin/process/shutdown", Proves: "it exits when its host calls Shutdown", Run: checkShutdown},
	{ID: "plugin/process/signals", Proves: "it ignores SIGINT and SIGTERM", Run: checkSignals},
	{ID: "plugin/process/only-its-host", Proves: "it answers only the host that started it", Run: checkOnlyItsHost},
	{ID: "plugin/process/side-by-side", Proves: "two processes run side by side", Run: func(t T, b Binary) {
		describe(t, b.Start(t))
		describe(t, b.Start(t))
	}},
}

// compareDocs compares each member of the document that `describe` prints with the description that
// the host receives.
func compareDocs(t T, printed, received wire.DescriptionDoc) {
	t.Helper()
	p, r := reflect.ValueOf(printed), reflect.ValueOf(received)
	for i := range p.NumField() {
		name, _, _ := strings.Cut(p.Type().Field(i).Tag.Get("json"), ",")
		if a, b := memberText(p.Field(i)), memberText(r.Field(i)); a != b {
			t.Errorf("describe prints %s as %s, but the host receives %s", name, a, b)
		}
	}
}

// memberText returns a member's value as text. An empty member and a missing member have the same
// text.
func memberText(member reflect.Value) string {
	if member.Kind() == reflect.Pointer && member.IsNil() {
		member = reflect.New(member.Type().Elem())
	}
	return strings.TrimPrefix(fmt.Sprintf("%+v", member), "&")
}

// describe returns the description that the running plugin sends to its host. It fails the test if
// the plugin returns an error.
func describe(t T, p *wire.Process) sdk.Description {
	t.Helper()
	d, err := p.Describe(callContext(t))
	if err != nil {
		t.Fatalf("describe: %v", err)
	}
	return d
}

// runWithoutHost runs the binary from the command line and returns its standard output and its
// error output. PATH is the only environment variable, as when `tenantry plugin add` runs
// `describe`. The test fails if the exit code is not wantCode.
func runWithoutHost(t T, b Binary, wantCode int, args ...string) (output, errorOutput []byte) {
	t.Helper()
	command := exec.CommandContext(callContext(t), b.Path, args...)
	command.Env = []string{wire.SearchPath}
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	var exitError *exec.ExitError
	if err != nil && !errors.As(err, &exitError) {
		t.Fatalf("run with the arguments %q: %v", args, err)
	}
	code := 0
	if exitError != nil {
		code = exitError.ExitCode()
	}
	if code != wantCode {
		t.Fatalf("with PATH as the only variable and the arguments %q, the plugin exits with %d, want %d: %s%s", args, code, wantCode, stdout.Bytes(), stderr.Bytes())
	}
	return stdout.Bytes(), stderr.Bytes()
}

func checkNameServers(t T, d sdk.Description) {
	t.Helper()
	if len(d.NameServers) > 0 && d.Kind != wire.KindDNS {
		t.Error("only a DNS provider has patterns of name servers")
	}
	for _, pattern := range d.NameServers {
		if !dns.IsNameServerPattern(pattern) {
			t.Errorf("the name server %q is not a host such as ns1.acme.com or a pattern such as *.ns.acme.com; a pattern such as *.com would match other providers", pattern)
		}
	}
}

// capabilities has the capabilities that the description of each kind of plugin may list. A mail
// platform has none.
var capabilities = map[wire.Kind][]string{
	wire.KindDNS:     {"atomic", "conditional"},
	wire.KindSending: {sdk.CanOAuth, sdk.CanRefresh, sdk.CanDisconnect},
}

// checkCapabilities checks the capabilities, the fields that they need, and the fault domain of a
// description.
func checkCapabilities(t T, d sdk.Description) {
	t.Helper()
	for i, capability := range d.Capabilities {
		if !slices.Contains(capabilities[d.Kind], capability) {
			t.Errorf("capability %q is not one of %q, the capabilities of the kind %s", capability, capabilities[d.Kind], d.Kind)
		}
		if slices.Contains(d.Capabilities[:i], capability) {
			t.Errorf("capability %q is listed twice", capability)
		}
	}
	for capability, names := range d.Needs {
		if !slices.Contains(d.Capabilities, capability) {
			t.Errorf("Needs has the capability %q, which Capabilities does not list", capability)
		}
		for _, name := range names {
			if !slices.ContainsFunc(d.Fields, func(f sdk.Field) bool { return f.Name == name }) {
				t.Errorf("capability %q needs %q, which is not a field", capability, name)
			}
		}
	}
	if d.FaultDomain != "" && (d.Kind != wire.KindSending || d.FaultDomain != wire.FaultCredential) {
		t.Errorf("the fault domain is %q, but it must be empty, or %q for a sending platform", d.FaultDomain, wire.FaultCredential)
	}
}

func checkFields(t T, fields []sdk.Field) {
	t.Helper()
	definedNames := map[string]bool{}
	for _, f := range fields {
		if !fieldName.MatchString(f.Name) || definedNames[f.Name] {
			t.Errorf("field %q is not a name like client_id, or is defined twice", f.Name)
		}
		definedNames[f.Name] = true
		if f.Help == "" {
			t.Errorf("field %q has no help", f.Name)
		}
		if f.Default != "" && (f.Secret || f.Required) {
			t.Errorf("field %q has a default, although it is secret or required", f.Name)
		}
		looksSecret := strings.Contains(f.Name, "secret") || strings.Contains(f.Name, "token") || strings.Contains(f.Name, "password")
		// A switch such as use_tokens is not a secret, and neither is a URL such as token_url.
		isSwitch := f.Default == "true" || f.Default == "false"
		isURL := strings.HasPrefix(f.Default, "http://") || strings.HasPrefix(f.Default, "https://") || strings.HasSuffix(f.Name, "_url")
		if looksSecret && !isSwitch && !isURL && !f.Secret {
			t.Errorf("field %q is not marked as secret", f.Name)
		}
	}
}

// hostEntry matches the entries of Description.Hosts: a host, a pattern such as *.acme.com, or a
// field such as {api_url}.
var hostEntry = regexp.MustCompile(`^(\{[a-z][a-z0-9_]*\}|(\*\.)?[a-z0-9-]+(\.[a-z0-9-]+)+)$`)

func checkHosts(t T, d sdk.Description) {
	t.Helper()
	for _, host := range d.Hosts {
		if !hostEntry.MatchString(host) {
			t.Errorf("host %q is not a host, a pattern such as *.acme.com or a field such as {api_url}", host)
		}
		isField := func(f sdk.Field) bool { return "{"+f.Name+"}" == host }
		if strings.HasPrefix(host, "{") && !slices.ContainsFunc(d.Fields, isField) {
			t.Errorf("host %s is not a field of the plugin", host)
		}
	}
}

// checkFacts checks the facts in the description of a mail platform. A host has a leading dot,
// because it stands only for the names below it. A built-in domain has no leading dot: it stands
// for itself and for the names below it.
func checkFacts(t T, d sdk.Description) {
	t.Helper()
	facts := d.MailPlatform
	hosts := slices.Concat(facts.Hosts.Exchanges, facts.Hosts.Signers, facts.Hosts.Verification)
	if d.Kind != wire.KindMail {
		if len(hosts)+len(facts.BuiltinDomains) > 0 {
			t.Error("only a mail platform has built-in domains and mail hosts")
		}
		return
	}
	for _, host := range hosts {
		if rest, hasDot := strings.CutPrefix(host, "."); !hasDot || !domainName.MatchString(rest) {
			t.Errorf("the mail host %q is not a domain in lower case with a leading dot, such as .mx.acme.com", host)
		}
	}
	for _, domain := range facts.BuiltinDomains {
		if !domainName.MatchString(domain) {
			t.Errorf("the built-in domain %q is not a domain in lower case without a leading dot, such as mail.acme.com", domain)
		}
	}
	isSetting := func(field sdk.Field) bool { return field.Name == facts.ApplicationField && !field.Secret }
	if facts.ApplicationField != "" && !slices.ContainsFunc(d.Fields, isSetting) {
		t.Errorf("the id of the application, %q, is not a setting of the plugin, or is secret", facts.ApplicationField)
	}
}

// checkBudgets checks the budgets of a description. The host ignores a budget with an unknown key.
func checkBudgets(t T, d sdk.Description) {
	t.Helper()
	keys := []string{"credential", "egress"}
	if d.Kind == wire.KindMail {
		keys = append(keys, "tenant")
	}
	operations := wire.Operations(d.Kind)
	for _, b := range d.Budgets {
		if b.Limit <= 0 || b.Window <= 0 {
			t.Errorf("budget %+v has no limit or window", b)
		}
		if !slices.Contains(keys, b.Key) {
			t.Errorf("budget %+v: the key must be one of %s", b, strings.Join(keys, ", "))
		}
		for operation, cost := range b.Costs {
			if cost < 1 || cost > b.Limit {
				t.Errorf("budget %+v: the cost of %s must be between 1 and the limit", b, operation)
			}
			if counted := b.Cost(operation); cost > counted && counted > 0 {
				t.Errorf("budget %+v: the host counts a call of %s as at most %d requests; divide the limit and all costs by the same number", b, operation, counted)
			}
		}
		for _, operation := range slices.Concat(b.Only, slices.Collect(maps.Keys(b.Costs))) {
			if !slices.Contains(operations, operation) { // the host would never count it
				t.Errorf("budget %+v: %q is not one of %s", b, operation, strings.Join(operations, ", "))
			}
		}
	}
}
