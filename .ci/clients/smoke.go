// SPDX-License-Identifier: Apache-2.0

// Command smoke runs the main workflow against `tenantry dev` with the Go client that
// .ci/clients/make generated. It reads the answers through the generated types, as users of the
// client do.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/tenantry/tenantry/ci/clients/api"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := smoke(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// caller has the state that the steps share.
type caller struct {
	*api.ClientWithResponses
	tenant uuid.UUID
	domain string
}

func smoke(ctx context.Context) error {
	authorized := api.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+os.Getenv("TENANTRY_KEY"))
		return nil
	})
	client, err := api.NewClientWithResponses(os.Getenv("TENANTRY_URL"), authorized)
	if err != nil {
		return err
	}
	tenant, err := uuid.Parse(os.Getenv("TENANTRY_TENANT"))
	if err != nil {
		return err
	}
	c := caller{client, tenant, os.Getenv("TENANTRY_DOMAIN")}
	for _, step := range []func(context.Context) error{c.connect, c.list, c.addDomain, c.provision, c.refusals} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c caller) connect(ctx context.Context) error {
	link, err := c.GetConnectUrlWithResponse(ctx, nil)
	if err != nil || link.JSON200 == nil {
		return unexpected("connect-url", link, err)
	}
	if link.JSON200.ConnectUrl == "" || !link.JSON200.ExpiresAt.After(time.Now()) {
		return unexpected("connect-url", link.JSON200, nil)
	}
	if err := control(http.MethodPost, "/tenants/"+c.tenant.String()+"/consent", map[string]string{"api_key": os.Getenv("TENANTRY_KEY")}); err != nil {
		return err
	}
	synced, err := c.SyncTenantWithResponse(ctx, c.tenant, &api.SyncTenantParams{IdempotencyKey: uuid.NewString()})
	if err != nil || synced.JSON200 == nil || synced.JSON200.Status != api.SyncedStatusCompleted {
		return unexpected("sync", synced, err)
	}
	return nil
}

func (c caller) list(ctx context.Context) error {
	tenants, err := c.ListTenantsWithResponse(ctx, nil)
	if err != nil || tenants.JSON200 == nil || tenants.JSON200.Count != 1 || tenants.JSON200.Tenants[0].TenantId != c.tenant {
		return unexpected("tenants", tenants, err)
	}
	if t := tenants.JSON200.Tenants[0]; t.ConsentedAt == nil || t.ExchangeBootstrapStatus != api.TenantSummaryExchangeBootstrapStatusReady {
		return unexpected("the tenant", t, nil)
	}
	return nil
}

func (c caller) addDomain(ctx context.Context) error {
	added, err := c.AddDomainWithResponse(ctx, c.tenant, &api.AddDomainParams{IdempotencyKey: uuid.NewString()}, api.AddDomain{Domain: c.domain})
	if err != nil || added.JSON200 == nil || added.JSON200.Status != api.AddedDomainStatusAdded {
		return unexpected("add domain", added, err)
	}
	var zone []map[string]any
	for _, r := range added.JSON200.VerificationDnsRecords {
		record, err := r.ValueByDiscriminator()
		if err != nil {
			return err
		}
		if txt, ok := record.(api.TxtRecord); ok {
			zone = append(zone, map[string]any{"type": "TXT", "name": txt.Label, "content": txt.Text, "ttl": txt.Ttl})
		}
	}
	if len(zone) != 1 {
		return unexpected("verification records", added.JSON200, nil)
	}
	if err := control(http.MethodPut, "/zones/"+c.domain+"/records", zone); err != nil {
		return err
	}
	verified, err := c.VerifyDomainWithResponse(ctx, c.tenant, c.domain, &api.VerifyDomainParams{IdempotencyKey: uuid.NewString()})
	if err != nil || verified.JSON200 == nil || !verified.JSON200.IsVerified {
		return unexpected("verify", verified, err)
	}
	return nil
}

func (c caller) provision(ctx context.Context) error {
	password := "Correct-Horse-7"
	provisioned, err := c.ProvisionMailboxesWithResponse(ctx, c.tenant, &api.ProvisionMailboxesParams{IdempotencyKey: uuid.NewString()}, api.ProvisionMailboxes{
		Domain: c.domain, AccountPassword: &password, Mailboxes: []api.WantedMailbox{{Name: "Ada King", Email: "ada@" + c.domain}},
	})
	if err != nil || provisioned.JSON200 == nil || provisioned.JSON200.CreatedCount != 1 || provisioned.JSON200.Results[0].Status != api.ProvisionResultStatusCreated {
		return unexpected("provision", provisioned, err)
	}
	mailboxes, err := c.ListMailboxesWithResponse(ctx, c.tenant, nil)
	if err != nil || mailboxes.JSON200 == nil || mailboxes.JSON200.Count != 1 || mailboxes.JSON200.Mailboxes[0].DailySendLimit != nil {
		return unexpected("mailboxes", mailboxes, err)
	}
	return nil
}

// refusals checks that the client has typed answers for errors, with their codes.
func (c caller) refusals(ctx context.Context) error {
	missing, err := c.GetTenantWithResponse(ctx, uuid.New(), nil)
	if err != nil || missing.ApplicationproblemJSON404 == nil || missing.ApplicationproblemJSON404.RequestId == "" ||
		missing.ApplicationproblemJSON404.Code != api.GetTenant404ApplicationProblemPlusJSONResponseBodyCodeTenantNotFound {
		return unexpected("an unknown tenant", missing, err)
	}
	refused, err := c.AddDomainWithResponse(ctx, c.tenant, &api.AddDomainParams{IdempotencyKey: uuid.NewString()}, api.AddDomain{Domain: "com"})
	if err != nil || refused.ApplicationproblemJSON400 == nil ||
		refused.ApplicationproblemJSON400.Code != api.AddDomain400ApplicationProblemPlusJSONResponseBodyCodeInvalidDomain {
		return unexpected("an invalid domain", refused, err)
	}
	return nil
}

// unexpected returns an error that describes an unexpected result. If got is an answer, the error
// contains its body.
func unexpected(label string, got any, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", label, err)
	}
	if answer, ok := got.(interface{ GetBody() []byte }); ok {
		got = string(answer.GetBody())
	}
	return fmt.Errorf("%s: unexpected %+v", label, got)
}

// control calls the control interface of the sandbox. The calls do what the administrator of a
// tenant and the owner of a DNS zone do.
func control(method, path string, body any) error {
	payload, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequest(method, os.Getenv("TENANTRY_CONTROL")+path, bytes.NewReader(payload))
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	_ = answer.Body.Close()
	if !strings.HasPrefix(answer.Status, "2") {
		return fmt.Errorf("control %s %s: %s", method, path, answer.Status)
	}
	return nil
}
