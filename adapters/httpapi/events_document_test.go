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
// same event with empty data must be invalid. The document must describe each type as a webhook.
func TestEachTypeOfEventHasSchema(t *testing.T) {
	api := newAPI(http.NewServeMux())
	registerOperations(api, Options{})
	registry := api.OpenAPI().Components.Schemas
	for _, kind := range event.Kinds() {
		e := event.Event{ID: exampleDomainID, Type: kind.Type, At: exampleTime, Tenant: tenant.GUID(exampleTenantID),
			Subject: event.Subject{Type: kind.Subject, ID: exampleDomainID}, Version: 1, Data: exampleData(kind.Data)}
		if problems := validateEvent(t, registry, loggedEventOf(e)); len(problems) > 0 {
			t.Errorf("%s: a valid event is refused: %v", kind.Type, problems)
		}
		withoutData := loggedEventOf(e)
		withoutData.Data = map[string]any{}
		if len(validateEvent(t, registry, withoutData)) == 0 {
			t.Errorf("%s: an event with empty data is valid, want an error", kind.Type)
		}
		hook := api.OpenAPI().Webhooks[string(kind.Type)]
		if hook == nil || hook.Post.RequestBody == nil || kind.About == "" {
			t.Errorf("%s is not described as a webhook", kind.Type)
		}
	}
	if len(api.OpenAPI().Webhooks) != len(event.Types())+1 || api.OpenAPI().Webhooks[string(webhook.TestType)] == nil {
		t.Errorf("the document has %d webhooks, want one for each of %d types and one for the type of test messages", len(api.OpenAPI().Webhooks), len(event.Types()))
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

// exampleData returns a value that has the type of empty and is valid in the schema of this type.
func exampleData(empty any) any {
	v := reflect.New(reflect.TypeOf(empty)).Elem()
	for i := range v.NumField() {
		tag, field := v.Type().Field(i).Tag, v.Field(i)
		firstEnumValue, _, _ := strings.Cut(tag.Get("enum"), ",")
		switch {
		case field.Kind() == reflect.Slice:
			field.Set(reflect.MakeSlice(field.Type(), 0, 0))
		case field.Kind() == reflect.String && firstEnumValue != "":
			field.SetString(firstEnumValue)
		case field.Kind() == reflect.String && tag.Get("format") == "uuid":
			field.SetString(exampleDomainID)
		}
	}
	return v.Interface()
}
