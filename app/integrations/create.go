// SPDX-License-Identifier: Apache-2.0

package integrations

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/ports"
)

// Create tests a credential, stores it with a new integration, and returns the integration. If the
// credential fails the test, Create stores nothing. Create fails with unknown_provider,
// invalid_request, provider_credential_rejected, account_not_found, account_closed, an error of
// integration.Reach.Choose, an error of the platform, or service_unavailable if the platform's
// plugin does not start soon.
func (s *Service) Create(ctx context.Context, input NewIntegration, encoder ports.AnswerEncoder[View]) (View, error) {
	credential, err := s.Platforms.ParseCredential(ctx, input.Provider, input.APIKey)
	if err != nil {
		return View{}, err
	}
	workspace, err := s.testCredential(ctx, input, credential)
	if err != nil {
		return View{}, err
	}
	now := s.now()
	id, err := ident.NewFrom(s.Random, now)
	if err != nil {
		return View{}, err
	}
	credential = withWorkspace(credential, "")
	i := integration.Integration{
		ID: id, AccountID: input.Account, Provider: input.Provider, Name: input.Name, Workspace: workspace, CredentialFields: fieldNames(credential),
		Status: integration.Connected, LastTestedAt: now, CreatedAt: now, UpdatedAt: now,
	}
	return s.add(ctx, i, credential, encoder)
}

// testCredential tests a credential for the workspace that input names. If input names no
// workspace, it uses the workspace in the credential, if there is one. It returns the workspace
// that integration.Reach.Choose selects.
func (s *Service) testCredential(ctx context.Context, input NewIntegration, credential secret.Credential) (integration.Workspace, error) {
	workspaceID := input.WorkspaceID
	if workspaceID == "" {
		workspaceID = credential.Settings[workspaceField]
	}
	reach, err := checkCredential(ctx, s.Platforms.For(input.Provider, withWorkspace(credential, workspaceID)))
	if err != nil {
		return integration.Workspace{}, nameInvalidMember(translateError(err), input)
	}
	return reach.Choose(input.Provider, workspaceID)
}

func checkCredential(ctx context.Context, platform ports.SendingPlatform) (reach integration.Reach, err error) {
	err = reconcile.Call(ctx, func(ctx context.Context) error {
		reach, err = platform.Check(ctx)
		return err
	})
	return reach, err
}

// nameInvalidMember adds the invalid member of the request to an invalid_request of the platform:
// workspace_id if the platform refuses the workspace in input, and api_key otherwise. It returns
// any other error unchanged. If the platform's error is about a setting, its detail begins with the
// name of the setting and a colon.
func nameInvalidMember(err error, input NewIntegration) error {
	if outcome.KindOf(err) != outcome.Refused || !errors.Is(err, fault.InvalidRequest) {
		return err
	}
	detail := fault.ErrorOf(err).Detail
	invalid := fault.Field{Name: "api_key", Message: detail}
	if message, found := strings.CutPrefix(detail, workspaceField+": "); found && input.WorkspaceID != "" {
		invalid = fault.Field{Name: workspaceField, Message: message}
	}
	return fmt.Errorf("%w (%w)", fault.InvalidRequest.At(detail, invalid), err)
}

func (s *Service) add(ctx context.Context, i integration.Integration, credential secret.Credential, encoder ports.AnswerEncoder[View]) (View, error) {
	sealedCredential, err := s.seal(i, credential)
	if err != nil {
		return View{}, err
	}
	view := s.newView(ctx, i)
	storedAnswer, err := encoder.Encode(view)
	if err != nil {
		return View{}, err
	}
	err = reconcile.Store(ctx, func(ctx context.Context) error {
		return s.Integrations.AddIntegration(ctx, i, sealedCredential, storedAnswer)
	})
	if err != nil {
		return View{}, fmt.Errorf("add integration: %w", err)
	}
	return view, nil
}
