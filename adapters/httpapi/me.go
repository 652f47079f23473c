// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/adapters/httpapi/guard"
	"github.com/tenantry/tenantry/app/keys"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/integration"
)

func registerDescribeCaller(api huma.API, o Options) {
	register(api, huma.Operation{
		OperationID: "get-me", Method: http.MethodGet, Path: "/v1/me", Tags: []string{tagKeys},
		Summary: "Describe the caller",
		Description: "Returns the account and the key of the request: the plan, what the key may do, how many requests each rate limit still allows, and the " +
			"providers that can be used. Every key may call it. The request itself counts in `read`.",
		Metadata: guard.OperationRules{Bucket: guard.Reads, Scope: access.NoScope, AnswerExample: exampleMe}.Metadata(),
	}, func(ctx context.Context, caller access.Caller, _ *struct{}) (me, error) {
		overview, err := o.Profile.Overview(ctx, caller.Account.ID)
		if err != nil {
			return me{}, err
		}
		return meOf(caller, overview, o.Guard.Limits.Balances(ctx, caller.Account.ID)), nil
	})
}

type me struct {
	AccountID        string            `json:"account_id" format:"uuid" doc:"The account's id."`
	Plan             string            `json:"plan" doc:"The name of the account's plan."`
	AutomaticDNS     bool              `json:"automatic_dns" doc:"Whether the plan includes automatic DNS."`
	TenantSlots      int               `json:"tenant_slots" doc:"How many tenants the account may hold."`
	TenantsHeld      int               `json:"tenants_held" doc:"How many tenants the account holds, including those that the key does not see."`
	Key              callerKey         `json:"key" doc:"The key of the request."`
	Limits           []bucketBalance   `json:"limits" doc:"The rate limits of the account."`
	SendingProviders []sendingProvider `json:"sending_providers" doc:"The sending platforms that an integration can use."`
	DNSProviders     []dnsProvider     `json:"dns_providers" doc:"The DNS providers that automatic DNS can use."`
}

type callerKey struct {
	ID        string     `json:"id" format:"uuid" doc:"The key's id."`
	Name      string     `json:"name" doc:"What the key is for."`
	Scopes    []string   `json:"scopes" doc:"What the key may do; * means everything."`
	TenantIDs *[]string  `json:"tenant_ids" nullable:"true" doc:"The GUIDs of the tenants that the key sees, null for all."`
	ExpiresAt *time.Time `json:"expires_at" doc:"When the key expires, null for never."`
}

type bucketBalance struct {
	Bucket        string `json:"bucket" enum:"read,expensive,provider_heavy,provider_heavy_writes,write" doc:"The name of the rate limit."`
	Limit         int    `json:"limit" doc:"How many requests the limit allows in its window."`
	WindowSeconds int    `json:"window_seconds" doc:"The length of the window in seconds."`
	Remaining     int    `json:"remaining" doc:"How many requests the limit still allows now."`
}

type sendingProvider struct {
	ID           string               `json:"id" doc:"The provider's id, as an integration names it."`
	Name         string               `json:"name" doc:"Its display name."`
	Needs        []string             `json:"needs" doc:"The fields that every credential must have."`
	Capabilities platformCapabilities `json:"capabilities" doc:"What an integration can do if its credential has all fields. This depends on the platform and the operator's settings."`
}

type dnsProvider struct {
	ID        string `json:"id" doc:"The provider's id."`
	Name      string `json:"name" doc:"Its display name."`
	Connected bool   `json:"connected" doc:"Whether the account has a connection to it."`
}

func meOf(caller access.Caller, o keys.Overview, balances []guard.Balance) me {
	plan := caller.Account.Plan
	return me{
		AccountID: string(caller.Account.ID), Plan: plan.Name, AutomaticDNS: plan.AutomaticDNS, TenantSlots: plan.TenantSlots, TenantsHeld: o.TenantCount,
		Key: callerKey{ID: caller.KeyID, Name: caller.KeyName, Scopes: access.Strings(caller.Bounds.Scopes), TenantIDs: listOrNil(access.Strings(caller.Bounds.Tenants)),
			ExpiresAt: timeOrNil(caller.Bounds.ExpiresAt)},
		Limits: convertAll(balances, func(b guard.Balance) bucketBalance {
			return bucketBalance{Bucket: string(b.Bucket), Limit: b.Limit, WindowSeconds: int(b.Window.Seconds()), Remaining: b.Remaining}
		}),
		SendingProviders: convertAll(o.SendingPlatforms, func(p integration.Provider) sendingProvider {
			return sendingProvider{ID: p.ID, Name: p.Title, Needs: append([]string{}, p.RequiredFields...), Capabilities: capabilitiesOf(p.Capabilities)}
		}),
		DNSProviders: convertAll(o.DNSProviders, func(p keys.AvailableProvider) dnsProvider {
			return dnsProvider{ID: p.ID, Name: p.Title, Connected: p.Connected}
		}),
	}
}

// listOrNil returns nil for a nil list, which JSON shows as null.
func listOrNil(list []string) *[]string {
	if list == nil {
		return nil
	}
	return &list
}
