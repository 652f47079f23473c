// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
)

// demoDomain is one of the sandbox's zones.
const demoDomain = "example-one.test"

// mainJob goes from a tenant that nobody connected to three working mailboxes.
func (w *walk) mainJob(ctx context.Context) error {
	for _, part := range []func(context.Context) error{w.connect, w.addDomain, w.verify, w.sign, w.provision} {
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
	w.note("a link for the tenant's administrator, good for 15 minutes and once; now the administrator takes it:")
	err := w.control(ctx, "browser: consent, sign-in at the tenant, confirmation", http.MethodPost,
		"/tenants/"+w.ready.Tenants[0].TenantID+"/consent", object{"api_key": w.ready.APIKey})
	if err != nil {
		return err
	}
	w.title("Prepare its mail server and discover what is there")
	synced, err := w.until(ctx, http.MethodPost, w.tenant("/sync"), nil, func(a object, status int) bool {
		return status == http.StatusOK && a.text("status") == "completed"
	})
	if err != nil {
		return err
	}
	w.note("synced: %v", summary(synced, "status"))
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
	records := added.objects("verification_dns_records")
	w.note("Microsoft 365 asks for %s", described(records))
	return w.publish(ctx, records)
}

func (w *walk) verify(ctx context.Context) error {
	w.title("Verify it")
	verified, err := w.until(ctx, http.MethodPost, w.tenant("/domains/"+demoDomain+"/verify"), nil, ok)
	if err != nil {
		return err
	}
	w.note("%s", verified.text("message"))
	return nil
}

func (w *walk) sign(ctx context.Context) error {
	w.title("Publish the mail records and enable DKIM")
	var stored object
	stored, err := w.until(ctx, http.MethodGet, w.tenant("/domains/"+demoDomain+"/dns"), nil, func(a object, _ int) bool {
		return strings.Contains(described(a.objects("service_configuration_records")), "_domainkey")
	})
	if err != nil {
		return err
	}
	records := append(stored.objects("verification_dns_records"), stored.objects("service_configuration_records")...)
	w.note("asked for: %s", described(stored.objects("service_configuration_records")))
	if err := w.publish(ctx, records); err != nil {
		return err
	}
	_, err = w.until(ctx, http.MethodGet, w.tenant("/domains/"+demoDomain+"/dkim-status"), nil, func(a object, _ int) bool {
		return a["ready_to_enable"] == true
	})
	if err != nil {
		return err
	}
	signed, err := w.until(ctx, http.MethodPost, w.tenant("/domains/"+demoDomain+"/enable-dkim"), nil, ok)
	if err != nil {
		return err
	}
	w.note("DKIM is %s", signed.text("dkim_status"))
	return nil
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
	w.title("What there is now")
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

// publish does what a person does at a registrar: it writes the records that
// the API named into the zone.
func (w *walk) publish(ctx context.Context, records []object) error {
	zone := []object{}
	for _, r := range records {
		entry := object{"name": r["label"], "ttl": 300}
		switch r.text("recordType") {
		case "domainDnsTxtRecord":
			entry["type"], entry["content"] = "TXT", r["text"]
		case "domainDnsMxRecord":
			if strings.HasSuffix(r.text("mailExchange"), ".invalid") {
				continue // the other way to prove a domain; the TXT is enough
			}
			entry["type"], entry["content"], entry["priority"] = "MX", r["mailExchange"], r["preference"]
		case "domainDnsCnameRecord":
			entry["type"], entry["content"] = "CNAME", r["canonicalName"]
			if strings.HasPrefix(r.text("label"), "selector") && !strings.HasSuffix(r.text("label"), demoDomain) {
				entry["name"] = r.text("label") + "." + demoDomain
			}
		}
		zone = append(zone, entry)
	}
	return w.control(ctx, fmt.Sprintf("registrar: %d records into the zone", len(zone)), http.MethodPut, "/zones/"+demoDomain+"/records", zone)
}

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
