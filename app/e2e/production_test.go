// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestProductionPage follows docs/production.md step by step.
func TestProductionPage(t *testing.T) {
	t.Parallel()
	steps := productionSteps(t)
	m := newMachine(t)
	m.setsUp(steps)
	p := m.serves()
	m.runs(steps[7]...)
	m.places = append(m.places, "$PUBLIC_URL/v1", m.server.ready.APIURL+"/v1")
	m.connects(m.runs(steps[9][0]))
	if out := m.runs(steps[9][1:]...); !strings.Contains(out, `"status":"completed"`) || !strings.Contains(out, `"next_step":"add_domain"`) {
		t.Errorf("the first tenant: %s", out)
	}
	if out := m.runs(steps[10]...); !strings.Contains(out, "you@example.com") {
		t.Errorf("the rehearsal has no account: %s", out)
	}
	m.runs(steps[11][0])
	m.registers(false)
	m.runs(steps[11][1:]...)
	m.runs(`curl -sS --fail -X POST -H "Authorization: Bearer $KEY" -H "Idempotency-Key: second" "$PUBLIC_URL/v1/tenants/$TENANT/sync"`)
	if !strings.Contains(p.logs.String(), "credential reloaded") {
		t.Error("the new certificate was not taken up")
	}
	m.runs(steps[12]...)
	m.mode("opt/current/tenantry", 0o755)
	m.mode("opt/current/plugins/catalog.json", 0o644)
	if to, err := os.Readlink(m.root + "/opt/current"); err != nil || to != "0.2.0" {
		t.Errorf("current is %s (%v)", to, err)
	}
}

// setsUp follows the page up to the first start.
func (m *machine) setsUp(steps map[int][]string) {
	m.t.Helper()
	m.runs(steps[2]...)
	if strings.Contains(steps[2][1], "cd ") {
		m.t.Error("the script enters a folder before sudo: only the service's group may enter that of the settings")
	}
	if out := m.runs(steps[3]...); strings.Contains(out, "PRIVATE KEY") {
		m.t.Error("the key is printed")
	}
	m.mode("etc/microsoft365.pem", 0o640)
	m.runs(steps[4]...)
	m.registers(true)
	if out := m.runs(steps[5]...); !strings.Contains(out, m.settings["client_id"]) || !regexp.MustCompile(`(?m)^public_url +https://tenantry.example +file`).MatchString(out) {
		m.t.Errorf("config says %s", out)
	}
	if out := m.runs(steps[6]...); strings.Contains(out, "failed") {
		m.t.Errorf("doctor says %s", out)
	}
	m.mode("state/keyset.json", 0o600)
}

var (
	stepHead = regexp.MustCompile(`(?m)^## (?:(\d+)\. )?.*$`)
	shBlock  = regexp.MustCompile("(?s)```sh\n(.*?)```")
)

// productionSteps are the page's sh blocks by the number of their step. Each
// must be there, and none outside of the steps.
func productionSteps(t *testing.T) map[int][]string {
	t.Helper()
	raw, err := os.ReadFile("../../docs/production.md")
	if err != nil {
		t.Fatal(err)
	}
	page, steps, found := string(raw), map[int][]string{}, 0
	heads := stepHead.FindAllStringSubmatchIndex(page, -1)
	for i, head := range heads {
		end := len(page)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		for _, block := range shBlock.FindAllStringSubmatch(page[head[1]:end], -1) {
			steps[i+1] = append(steps[i+1], block[1])
			found++
		}
	}
	if want := len(shBlock.FindAllString(page, -1)); found != want || found < 14 || len(steps) != 10 {
		t.Fatalf("%d of %d blocks in the steps %d", found, want, len(steps))
	}
	return steps
}
