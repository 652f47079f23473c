// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// demoDomain is one of the sandbox's zones.
const demoDomain = "example-one.test"

// mainJob goes from a tenant that nobody connected to three mailboxes that a
// sending platform sends from, and that are kept to what they may send.
func (w *walk) mainJob(ctx context.Context) error {
	for _, part := range []func(context.Context) error{w.connect, w.addDomain, w.automate, w.provision, w.sending, w.limits} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) tenant(rest string) string { return "/v1/tenants/" + w.ready.Tenants[0].TenantID + rest }

func (w *walk) connect(ctx context.Context) error {
	w.title("Connect a Microsoft 365 tenant")
	if _, err := w.must(ctx, http.MethodGet, "/v1/tenants/connect-url", nil); err != nil {
		return err
	}
	w.note("The link is for the tenant's administrator. It works once, within 15 minutes. The administrator opens it:")
	err := w.control(ctx, "in the browser: consent, sign in at the tenant, confirm",
		"/tenants/"+w.ready.Tenants[0].TenantID+"/consent", object{"api_key": w.ready.APIKey})
	if err != nil {
		return err
	}
	w.title("Prepare its mail server, and discover its domains and mailboxes")
	synced, err := w.until(ctx, http.MethodPost, w.tenant("/sync"), nil, func(a object, status int) bool {
		return status == http.StatusOK && a.text("status") == "completed"
	})
	if err != nil {
		return err
	}
	w.note("The sync found: %v", summary(synced, "status"))
	t, err := w.must(ctx, http.MethodGet, w.tenant(""), nil)
	if err != nil {
		return err
	}
	readiness, _ := t["readiness"].(map[string]any)
	w.note("%s (%s): Exchange %s, SMTP AUTH %v, next step: %v", t.text("tenant_name"), t.text("tenant_domain"),
		t.text("exchange_bootstrap_status"), readiness["smtp_auth"], readiness["next_step"])
	return nil
}

func (w *walk) addDomain(ctx context.Context) error {
	w.title("Add the domain %s", demoDomain)
	added, err := w.must(ctx, http.MethodPost, w.tenant("/domains"), object{"domain": demoDomain})
	if err != nil {
		return err
	}
	w.note("To prove that the domain is yours, Microsoft 365 asks for one of: %s", described(added.objects("verification_dns_records")))
	return nil
}

// automate has the service do the DNS and all that follows from it.
func (w *walk) automate(ctx context.Context) error {
	w.title("Publish its DNS records at the connected DNS provider")
	listed, err := w.must(ctx, http.MethodGet, w.tenant("/domains"), nil)
	if err != nil {
		return err
	}
	var id string
	for _, d := range listed.objects("domains") {
		if d.text("domain_name") == demoDomain {
			id = d.text("id")
		}
	}
	begun, err := w.must(ctx, http.MethodPost, "/v1/domains/"+id+"/dns/provision", nil)
	if err != nil {
		return err
	}
	run, _ := begun["run"].(map[string]any)
	w.note("Nothing more to do: background jobs write the records, wait for the DNS, verify the domain and enable DKIM.")
	ended, err := w.until(ctx, http.MethodGet, "/v1/dns/provisioning-runs/"+object(run).text("id"), nil, func(a object, _ int) bool {
		w.stage(a)
		run, _ := a["run"].(map[string]any)
		return !slices.Contains([]any{"queued", "running"}, run["status"])
	})
	if err != nil {
		return err
	}
	run, _ = ended["run"].(map[string]any)
	if run["status"] != "completed" {
		return fmt.Errorf("the run ended as %v", run["status"])
	}
	w.note("The domain is verified, its records are published, its mail is signed with DKIM: the run is completed.")
	return nil
}

// stage shows how far the jobs of a run have come.
func (w *walk) stage(run object) {
	for _, j := range run.objects("jobs") {
		w.note("%-20s %s", j.text("stage"), j.text("status"))
	}
}

func (w *walk) provision(ctx context.Context) error {
	w.title("Provision three mailboxes")
	made, err := w.until(ctx, http.MethodPost, w.tenant("/mailboxes"), object{
		"domain": demoDomain, "account_password": "Correct-Horse-7",
		"mailboxes": []object{
			{"name": "Ada King", "email": "ada@" + demoDomain},
			{"name": "Max Born", "email": "max@" + demoDomain},
			{"name": "Lise Meitner", "email": "lise@" + demoDomain},
		},
	}, ok)
	if err != nil {
		return err
	}
	for _, result := range made.objects("results") {
		w.note("%-8s %-28s %s", result.text("status"), result.text("email"), result.text("name"))
	}
	if made.text("created_count") != "3" {
		return fmt.Errorf("created %s of 3 mailboxes", made.text("created_count"))
	}
	w.title("List what was made")
	mailboxes, err := w.must(ctx, http.MethodGet, w.tenant("/mailboxes"), nil)
	if err != nil {
		return err
	}
	domains, err := w.must(ctx, http.MethodGet, w.tenant("/domains"), nil)
	if err != nil {
		return err
	}
	for _, d := range domains.objects("domains") {
		w.note("%s: verified %v, DKIM %s, %s mailboxes", d.text("domain_name"), d["is_verified"], d.text("dkim_status"), mailboxes.text("count"))
	}
	return nil
}

func ok(_ object, status int) bool { return status < 300 }

func described(records []object) string {
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

// summary picks one member of each nested object of an answer.
func summary(answer object, member string) string {
	var parts []string
	for _, name := range []string{"bootstrap", "smtp_auth", "result"} {
		if nested, ok := answer[name].(map[string]any); ok {
			parts = append(parts, fmt.Sprintf("%s %v", name, nested[member]))
		}
	}
	return strings.Join(parts, ", ")
}
