// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/wire"
)

var (
	providerID = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
	fieldName  = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
)

var pluginChecks = []check{
	{"it says who it is and what it needs", func(t testing.TB, b Binary) {
		d := described(t, b.Start(t))
		if !providerID.MatchString(d.Name) {
			t.Errorf("the name %q is not a provider's id (%s)", d.Name, providerID)
		}
		if d.Kind != wire.KindMail && d.Kind != wire.KindDNS && d.Kind != wire.KindSending {
			t.Errorf("kind %q is none", d.Kind)
		}
		if d.Version == "" || d.Title == "" {
			t.Errorf("version %q or title %q is empty", d.Version, d.Title)
		}
		if len(d.NameServers) > 0 && d.Kind != wire.KindDNS {
			t.Error("only a DNS provider has patterns of name servers")
		}
		checkFields(t, d.Fields)
		checkBudgets(t, d.Budgets)
	}},
	{"describe and --version say the same", func(t testing.TB, b Binary) {
		d := described(t, b.Start(t))
		var printed struct{ Name, Kind, Version string }
		if err := json.Unmarshal(byHand(t, b, 0, "describe"), &printed); err != nil {
			t.Fatalf("describe does not print JSON: %v", err)
		}
		if printed.Name != d.Name || printed.Kind != string(d.Kind) || printed.Version != d.Version {
			t.Errorf("describe prints %+v, the host is told %s, %s, %s", printed, d.Name, d.Kind, d.Version)
		}
		if said := byHand(t, b, 0, "--version"); !bytes.Contains(said, []byte(d.Version)) {
			t.Errorf("--version prints %q without %s", said, d.Version)
		}
	}},
	{"started by hand it explains itself", func(t testing.TB, b Binary) {
		if said := byHand(t, b, 2); !bytes.Contains(bytes.ToLower(said), []byte("plugin")) {
			t.Errorf("it says %q", said)
		}
	}},
	{"it ends when its host lets go", func(t testing.TB, b Binary) {
		p := b.Start(t)
		began := time.Now()
		p.Stop(stopTime)
		if time.Since(began) >= stopTime {
			t.Errorf("it did not end within %s and was killed", stopTime)
		}
	}},
	{"two run side by side", func(t testing.TB, b Binary) {
		described(t, b.Start(t))
		described(t, b.Start(t))
	}},
}

func described(t testing.TB, p *wire.Process) sdk.Description {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callTime)
	defer cancel()
	d, err := p.Describe(ctx)
	if err != nil {
		t.Fatalf("describe: %v", err)
	}
	return d
}

// byHand runs the binary as a person does and returns what it prints.
func byHand(t testing.TB, b Binary, exit int, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callTime)
	defer cancel()
	said, err := exec.CommandContext(ctx, b.Path, args...).CombinedOutput()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatalf("run %v: %v", args, err)
	}
	got := 0
	if ended != nil {
		got = ended.ExitCode()
	}
	if got != exit {
		t.Fatalf("%v exits with %d, want %d: %s", args, got, exit, said)
	}
	return said
}

func checkFields(t testing.TB, fields []sdk.Field) {
	t.Helper()
	seen := map[string]bool{}
	for _, f := range fields {
		if !fieldName.MatchString(f.Name) || seen[f.Name] {
			t.Errorf("field %q is not a name like client_id, or is there twice", f.Name)
		}
		seen[f.Name] = true
		if f.Help == "" {
			t.Errorf("field %q has no help", f.Name)
		}
		if f.Default != "" && (f.Secret || f.Required) {
			t.Errorf("field %q has a default though it is secret or required", f.Name)
		}
		looksSecret := strings.Contains(f.Name, "secret") || strings.Contains(f.Name, "token") || strings.Contains(f.Name, "password")
		isSwitch := f.Default == "true" || f.Default == "false" // about secrets, it is none
		if looksSecret && !isSwitch && !f.Secret {
			t.Errorf("field %q is not marked as secret", f.Name)
		}
	}
}

func checkBudgets(t testing.TB, budgets []sdk.Budget) {
	t.Helper()
	for _, b := range budgets {
		if b.Key == "" || b.Limit <= 0 || b.Window <= 0 {
			t.Errorf("budget %+v is no limit", b)
		}
		for operation, cost := range b.Costs {
			if cost < 1 || cost > b.Limit {
				t.Errorf("budget %+v: %s never fits in", b, operation)
			}
		}
	}
}
