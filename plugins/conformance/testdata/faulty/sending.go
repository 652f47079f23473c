// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// sendingPlatform is a platform without accounts. Some of the bugs return invented accounts.
type sendingPlatform struct {
	sdk.SendingPlatform // nil, because the tests run no check that calls the other methods
	provider            provider
}

func (s sendingPlatform) Check(ctx context.Context) (integration.Reach, error) {
	return integration.Reach{}, s.provider.get(ctx)
}

func (s sendingPlatform) Account(ctx context.Context, address string) (integration.Account, error) {
	found := integration.Account{}
	if bug == "finds-anybody" {
		found = integration.Account{ID: "1", Address: address}
	}
	return found, s.provider.get(ctx)
}

func (s sendingPlatform) Accounts(ctx context.Context, cursor string) (integration.Page, error) {
	page := integration.Page{}
	switch {
	case bug == "list-never-ends":
		page.Next = "1"
	case bug == "lists-twice":
		page.Accounts = []integration.Account{{ID: "1", Address: "a@a.example"}}
		if cursor == "" {
			page.Next = "1"
		}
	}
	return page, s.provider.get(ctx)
}
