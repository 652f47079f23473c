// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/adapters/httpapi/openapi"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/core/webhook"
)

// TestEachTypeOfEventHasSchema validates an event of each type against the schema of events. The
// same event with empty data must be invalid.
func TestEachTypeOfEventHasSchema(t *testing.T) {
	api := newAPI(http.NewServeMux())
	registerOperations(api, Options{})
	registry := api.OpenAPI().Components.Schemas
	for _, k := range event.Kinds() {
		e := event.Event{ID: exampleDomainID, Type: k.Type, At: exampleTime, Tenant: tenant.GUID(exampleTenantID),
			Subject: event.Subject{Type: k.Subject, ID: exampleDomainID}, Version: 1, Data: exampleData(k.Data)}
		if problems := validateEvent(t, registry, loggedEventOf(e)); len(problems) > 0 {
			t.Errorf("%s: a valid event is refused: %v", k.Type, problems)
		}
		wrong := loggedEventOf(e)
		wrong.Data = map[string]any{}
		if len(validateEvent(t, registry, wrong)) == 0 {
			t.Errorf("%s: an event with empty data is accepted", k.Type)
		}
		hook := api.OpenAPI().Webhooks[string(k.Type)]
		if hook == nil || hook.Post.RequestBody == nil || k.About == "" {
			t.Errorf("%s is not described as a webhook", k.Type)
		}
	}
	if len(api.OpenAPI().Webhooks) != len(event.Types())+1 || api.OpenAPI().Webhooks[string(webhook.TestType)] == nil {
		t.Errorf("the document has %d webhooks, want one for each of %d types and one for the test", len(api.OpenAPI().Webhooks), len(event.Types()))
	}
}

func validateEvent(t *testing.T, registry huma.Registry, e loggedEvent) []error {
	t.Helper()
	raw, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		t.Fatal(err)
	}
	var result huma.ValidateResult
	schema := openapi.Event(registry)
	schema.PrecomputeMessages()
	huma.Validate(registry, schema, huma.NewPathBuffer(nil, 0), huma.ModeReadFromServer, value, &result)
	return result.Errors
}

// exampleData returns a value of the type of empty, with valid fields.
func exampleData(empty any) any {
	v := reflect.New(reflect.TypeOf(empty)).Elem()
	for i := range v.NumField() {
		tag, target := v.Type().Field(i).Tag, v.Field(i)
		first, _, enumerated := strings.Cut(tag.Get("enum"), ",")
		switch {
		case target.Kind() == reflect.Slice:
			target.Set(reflect.MakeSlice(target.Type(), 0, 0))
		case target.Kind() == reflect.String && (enumerated || tag.Get("enum") != ""):
			target.SetString(first)
		case target.Kind() == reflect.String && tag.Get("format") == "uuid":
			target.SetString(exampleDomainID)
		}
	}
	return v.Interface()
}
