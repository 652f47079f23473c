// SPDX-License-Identifier: Apache-2.0

// Package demo shows the main workflow of the service in a sandbox, from a new tenant to enforced
// send limits. It calls the API as a customer's client does, and prints each step. `make demo` runs
// it.
//
// Run is the only entry point. It creates a walkthrough, whose methods are the steps.
//
//   - demo.go: Run, and the steps from a new tenant to its mailboxes. Start here.
//   - sending.go: the step that connects the mailboxes to a sending platform.
//   - limits.go: the step that sets a send limit and shows how it is enforced.
//   - webhook.go: the webhook that receives the events of all steps.
//   - walkthrough.go: how a step calls the API and the sandbox, and what it prints.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/adapters/sandbox"
)

// demoDomain is the domain that the demo adds. The sandbox serves its DNS zone.
const demoDomain = "example-one.test"

// Run executes all steps against the sandbox that ready describes. It prints each request to the
// API with its status and duration to out. It stops at the first step that fails and returns the
// error. It also fails if the sandbox has no tenant.
func Run(ctx context.Context, out io.Writer, ready sandbox.Ready) error {
	if len(ready.Tenants) == 0 {
		return errors.New("the sandbox has no tenant: mail_platform must name a plugin that has a simulator")
	}
	w := &walkthrough{out: out, ready: ready}
	stop, err := w.startReceiver(ctx)
	if err != nil {
		return err
	}
	defer stop()
	for _, step := range []struct {
		run    func(context.Context) error
		events []string // the events of the step, which must arrive at the webhook
	}{
		{w.addWebhook, []string{"webhook.test"}},
		{w.connectTenant, []string{"tenant.connected"}},
		{w.addDomain, []string{"domain.added"}},
		{w.publishDNS, []string{"domain.verified", "domain.dkim_enabled", "dns_run.completed"}},
		{w.provisionMailboxes, []string{"mailbox.created"}},
		{w.connectSendingPlatform, []string{"integration.connected", "connection.connected"}},
		{w.enforceLimits, []string{"policy.set", "mailbox.blocked", "mailbox.unblocked"}},
	} {
		if err := step.run(ctx); err != nil {
			return err
		}
		if err := w.expectEvents(ctx, step.events); err != nil {
			return err
		}
	}
	return nil
}

// tenantPath returns the API path of the demo tenant, followed by rest.
func (w *walkthrough) tenantPath(rest string) string {
	return "/v1/tenants/" + w.ready.Tenants[0].TenantID + rest
}

// connectTenant connects the first tenant of the sandbox and synchronizes it.
func (w *walkthrough) connectTenant(ctx context.Context) error {
	w.beginStep("Connect a tenant of %s", w.ready.MailPlatform)
	if _, err := w.callOK(ctx, http.MethodGet, "/v1/tenants/connect-url", nil); err != nil {
		return err
	}
	w.printLine("The link is for the tenant's administrator. It works once, within 15 minutes. The administrator opens it:")
	err := w.controlSandbox(ctx, "in the browser: consent, sign in at the tenant, confirm",
		"/tenants/"+w.ready.Tenants[0].TenantID+"/consent", object{"api_key": w.ready.APIKey})
	if err != nil {
		return err
	}
	w.beginStep("Prepare the tenant's mail server, and discover the tenant's domains and mailboxes")
	synced, err := w.callUntil(ctx, http.MethodPost, w.tenantPath("/sync"), nil, func(answer object, status int) bool {
		return status == http.StatusOK && answer.text("status") == "completed"
	})
	if err != nil {
		return err
	}
	w.printLine("The parts of the sync ended with: %v", nestedValues(synced, "status"))
	tenant, err := w.callOK(ctx, http.MethodGet, w.tenantPath(""), nil)
	if err != nil {
		return err
	}
	readiness, _ := tenant["readiness"].(map[string]any)
	w.printLine("%s (%s): mail server %s, SMTP AUTH %v, next step: %v", tenant.text("tenant_name"), tenant.text("tenant_domain"),
		tenant.text("exchange_bootstrap_status"), readiness["smtp_auth"], readiness["next_step"])
	return nil
}

// addDomain adds demoDomain to the tenant.
func (w *walkthrough) addDomain(ctx context.Context) error {
	w.beginStep("Add the domain %s", demoDomain)
	added, err := w.callOK(ctx, http.MethodPost, w.tenantPath("/domains"), object{"domain": demoDomain})
	if err != nil {
		return err
	}
	w.printLine("To prove that the domain is yours, %s asks for one of: %s", w.ready.MailPlatform, recordNames(added.objects("verification_dns_records")))
	return nil
}

// publishDNS starts a provisioning run for the DNS records of demoDomain and waits until the run
// ends. It fails unless the run is completed.
func (w *walkthrough) publishDNS(ctx context.Context) error {
	w.beginStep("Publish the domain's DNS records at the connected DNS provider")
	listed, err := w.callOK(ctx, http.MethodGet, w.tenantPath("/domains"), nil)
	if err != nil {
		return err
	}
	var domainID string
	for _, d := range listed.objects("domains") {
		if d.text("domain_name") == demoDomain {
			domainID = d.text("id")
		}
	}
	started, err := w.callOK(ctx, http.MethodPost, "/v1/domains/"+domainID+"/dns/provision", nil)
	if err != nil {
		return err
	}
	run, _ := started["run"].(map[string]any)
	w.printLine("Nothing more to do: background jobs write the records, wait for the DNS, verify the domain and enable DKIM.")
	last, err := w.callUntil(ctx, http.MethodGet, "/v1/dns/provisioning-runs/"+object(run).text("id"), nil, func(answer object, _ int) bool {
		w.printStages(answer)
		run, _ := answer["run"].(map[string]any)
		return !slices.Contains([]any{"queued", "running"}, run["status"])
	})
	if err != nil {
		return err
	}
	run, _ = last["run"].(map[string]any)
	if run["status"] != "completed" {
		return fmt.Errorf("the provisioning run ended with the status %v", run["status"])
	}
	w.printLine("The domain is verified, its records are published, its mail is signed with DKIM: the run is completed.")
	return nil
}

// printStages prints the stage and the status of each job of a provisioning run.
func (w *walkthrough) printStages(run object) {
	for _, j := range run.objects("jobs") {
		w.printLine("%-20s %s", j.text("stage"), j.text("status"))
	}
}

// provisionMailboxes creates three mailboxes. Then it lists the mailboxes and the domains of the
// tenant.
func (w *walkthrough) provisionMailboxes(ctx context.Context) error {
	w.beginStep("Provision three mailboxes")
	created, err := w.callUntil(ctx, http.MethodPost, w.tenantPath("/mailboxes"), object{
		"domain": demoDomain, "account_password": "Correct-Horse-7",
		"mailboxes": []object{
			{"name": "Ada King", "email": "ada@" + demoDomain},
			{"name": "Max Born", "email": "max@" + demoDomain},
			{"name": "Lise Meitner", "email": "lise@" + demoDomain},
		},
	}, succeeded)
	if err != nil {
		return err
	}
	for _, result := range created.objects("results") {
		w.printLine("%-8s %-28s %s", result.text("status"), result.text("email"), result.text("name"))
	}
	if created.text("created_count") != "3" {
		return fmt.Errorf("created %s of 3 mailboxes", created.text("created_count"))
	}
	w.beginStep("List the mailboxes and the domains")
	mailboxes, err := w.callOK(ctx, http.MethodGet, w.tenantPath("/mailboxes"), nil)
	if err != nil {
		return err
	}
	domains, err := w.callOK(ctx, http.MethodGet, w.tenantPath("/domains"), nil)
	if err != nil {
		return err
	}
	for _, d := range domains.objects("domains") {
		w.printLine("%s: verified %v, DKIM %s, %s mailboxes", d.text("domain_name"), d["is_verified"], d.text("dkim_status"), mailboxes.text("count"))
	}
	return nil
}

// succeeded reports whether a status is a success. It is a condition for callUntil.
func succeeded(_ object, status int) bool { return status < 300 }

// recordNames lists DNS records by their type and name.
func recordNames(records []object) string {
	var names []string
	for _, r := range records {
		kind := strings.TrimSuffix(strings.TrimPrefix(r.text("recordType"), "domainDns"), "Record")
		names = append(names, strings.ToUpper(kind)+" "+r.text("label"))
	}
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}

// nestedValues lists the value of one member of each object that is nested in a sync's answer.
func nestedValues(answer object, member string) string {
	var parts []string
	for _, name := range []string{"bootstrap", "smtp_auth", "result"} {
		if nested, ok := answer[name].(map[string]any); ok {
			parts = append(parts, fmt.Sprintf("%s %v", name, nested[member]))
		}
	}
	return strings.Join(parts, ", ")
}
