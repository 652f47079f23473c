// SPDX-License-Identifier: Apache-2.0

package exchange_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/exchange"
)

// errorResponse returns an error response in the form that was observed at Exchange.
func errorResponse(dotNetType, text string) string {
	raw, err := json.Marshal(map[string]any{"error": map[string]any{
		"code": "BadRequest", "message": "Invalid Operation",
		"details": []any{map[string]any{"code": "Client", "target": "", "message": "Ex6F9304|" + dotNetType + "|" + text}},
		"innererror": map[string]any{
			"message": "Invalid Operation", "type": "Microsoft.Exchange.Admin.OData.Core.ODataServiceException",
			"internalexception": map[string]any{"message": text, "type": dotNetType, "stacktrace": ""},
		},
	}})
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// newFailingExchange starts a fake of Exchange that answers each cmdlet with this status and body.
// It also returns a pointer to the number of requests.
func newFailingExchange(t *testing.T, status int, body string) (exchange.Client, *int) {
	t.Helper()
	requests := 0
	return newFakeExchange(t, func(w http.ResponseWriter, _ *http.Request) {
		requests++
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}), &requests
}

const tasksNamespace = "Microsoft.Exchange.Configuration.Tasks."

// TestExceptionTypesBecomeClasses covers the .NET types and the texts that determine the class of a
// failure.
func TestExceptionTypesBecomeClasses(t *testing.T) {
	for name, tc := range map[string]struct {
		dotNetType, text string
		wantClass        exchange.Class
		wantKind         outcome.Kind // of an answer with status 400
	}{
		"not found":                          {tasksNamespace + "ManagementObjectNotFoundException", "object 'x' couldn't be found on 'y'.", exchange.NotFound, outcome.Refused},
		"address taken":                      {"Microsoft.Exchange.Provisioning.WLCDManagedMemberExistsException", `The proxy address "SMTP:a@b" is already being used by the proxy addresses or LegacyExchangeDN of "x".`, exchange.AddressTaken, outcome.Refused},
		"address taken, by a different type": {"Microsoft.Exchange.Data.Directory.ProxyAddressExistsException", "x", exchange.AddressTaken, outcome.Refused},
		"object exists":                      {"Microsoft.Exchange.Data.Directory.ADObjectAlreadyExistsException", "x", exchange.Exists, outcome.Refused},
		"name conversion":                    {"Microsoft.Exchange.NameConversionException", "x", exchange.Exists, outcome.Refused},
		"dehydrated":                         {tasksNamespace + "InvalidOperationInDehydratedContextException", "x", exchange.Dehydrated, outcome.NotReady},
		"transformation":                     {"Microsoft.Exchange.AdminApi.CommandInvocation.ParameterTransformationException", "x", exchange.BadParameter, outcome.Refused},
		"unknown parameter":                  {"Microsoft.Exchange.AdminApi.CommandInvocation.AmbiguousParameterSetException", "x", exchange.BadParameter, outcome.Refused},
		"DKIM":                               {"Microsoft.Exchange.Management.Tasks.ValidationException", "CNAME record does not exist for this config.", exchange.InvalidValue, outcome.Refused},
		"rules validation":                   {"Microsoft.Exchange.RulesValidationException", "x", exchange.LimitReached, outcome.Refused},
		"too many rules":                     {"System.InvalidOperationException", "the maximum number of rules", exchange.LimitReached, outcome.Refused},
		"rule too large":                     {"System.InvalidOperationException", "The rule is too large", exchange.LimitReached, outcome.Refused},
		"trace quota":                        {"System.Exception", "Your recent queries have surpassed the permitted limit, please try again later", exchange.Throttled, outcome.Throttled},
		"retriable":                          {"Microsoft.Exchange.SPRetriableException", "x", exchange.Transient, outcome.Down},
		"server side":                        {"System.Exception", "A server side error has occurred because of which the operation could not be completed. Please try again after some time.", exchange.Transient, outcome.Down},
		"proxy not available":                {"Microsoft.Exchange.CmdletProxyNotAvailableFailure", "x", exchange.Transient, outcome.Down},
		"server busy":                        {"Microsoft.Exchange.ServerBusyException", "x", exchange.Transient, outcome.Down},
		"transient":                          {"Microsoft.Exchange.Data.Directory.TransientException", "x", exchange.Transient, outcome.Down},
		"AD transient":                       {"Microsoft.Exchange.Data.Directory.ADTransientException", "x", exchange.Transient, outcome.Down},
		"back-end":                           {"Microsoft.Exchange.BackendCommunicationException", "x", exchange.Transient, outcome.Down},
		"accepted domain":                    {"System.Exception", "The domain 'x' isn\u2019t an accepted domain.", exchange.NotAccepted, outcome.Refused},
		"curly apostrophe":                   {"System.Exception", "the object couldn\u2019t be found", exchange.NotFound, outcome.Refused},
		"type before text":                   {tasksNamespace + "ManagementObjectNotFoundException", "already exists", exchange.NotFound, outcome.Refused},
		"unknown type":                       {"Contoso.SomethingElse", "x", exchange.Unknown, outcome.Refused},
	} {
		t.Run(name, func(t *testing.T) {
			for form, body := range map[string]string{
				"all parts": errorResponse(tc.dotNetType, tc.text),
				"without the inner error": fmt.Sprintf(`{"error":{"code":"BadRequest","message":"Invalid Operation","details":[{"code":"Client","message":%q}]}}`,
					"|"+tc.dotNetType+"|"+tc.text),
				"message alone": fmt.Sprintf(`{"error":{"code":"BadRequest","message":%q}}`, "ExB10BE9|"+tc.dotNetType+"|"+tc.text),
			} {
				c, _ := newFailingExchange(t, http.StatusBadRequest, body)
				_, err := invoke(t, c, call.Create)
				if !exchange.Is(err, tc.wantClass) || outcome.KindOf(err) != tc.wantKind {
					t.Errorf("%s: got %v, want the class %v and the kind %s", form, err, tc.wantClass, tc.wantKind)
				}
				if strings.ContainsAny(err.Error(), `'"`) {
					t.Errorf("%s: got the error %v, want one without a text of the platform", form, err)
				}
			}
			reported, _ := json.Marshal(map[string]any{"value": []any{}, "@adminapi.errors": []string{"|" + tc.dotNetType + "|" + tc.text}})
			c, _ := newFailingExchange(t, http.StatusOK, string(reported))
			wantKind := tc.wantKind
			if wantKind == outcome.Refused {
				wantKind = outcome.Broken // the command may have had an effect, because the status is 200
			}
			if _, err := invoke(t, c, call.Create); !exchange.Is(err, tc.wantClass) || outcome.KindOf(err) != wantKind {
				t.Errorf("reported with 200: got %v, want the class %v and the kind %s", err, tc.wantClass, wantKind)
			}
		})
	}
}

// TestHTTPStatusesBecomeOutcomes covers error statuses with different bodies.
func TestHTTPStatusesBecomeOutcomes(t *testing.T) {
	noTenant := `{"error":{"code":"NotFound","message":"The tenant does not exist"}}`
	for name, tc := range map[string]struct {
		status       int
		body         string
		wantKind     outcome.Kind
		wantCode     fault.Code
		read, create int // number of requests, by effect
	}{
		"401, empty":            {401, "", outcome.Refused, fault.AccessDenied, 1, 1},
		"401, JSON":             {401, `{"error":{"code":"Unauthorized"}}`, outcome.Refused, fault.AccessDenied, 1, 1},
		"403, NUL bytes":        {403, strings.Repeat("\x00", 4096), outcome.Refused, fault.AccessDenied, 1, 1},
		"404, no tenant":        {404, noTenant, outcome.Refused, fault.AccessDenied, 1, 1},
		"404, tenant in a text": {404, errorResponse("Microsoft.ODataServiceException", "The tenant 'x' couldn't be found."), outcome.Refused, fault.AccessDenied, 1, 1},
		"404, an object":        {404, errorResponse("Microsoft.ManagementObjectNotFoundException", "x"), outcome.Refused, fault.ProviderError, 1, 1},
		"404 of a proxy":        {404, "<html>", outcome.Broken, fault.ProviderError, 1, 1},
		"429, empty":            {429, "", outcome.Throttled, fault.ProviderUnavailable, 3, 3},
		"500, HTML":             {500, "<html>", outcome.Broken, fault.ProviderError, 3, 1},
		"500, transient":        {500, errorResponse("Microsoft.TransientException", "x"), outcome.Broken, fault.ProviderError, 3, 1},
		"503, HTML":             {503, "<html>", outcome.Down, fault.ProviderUnavailable, 3, 1},
		"504, HTML":             {504, "<html>", outcome.Unknown, fault.ProviderTimeout, 3, 1},
		"400, transient":        {400, errorResponse("Microsoft.TransientException", "x"), outcome.Down, fault.ProviderUnavailable, 3, 1},
		"400, no JSON":          {400, "\x00\x00", outcome.Refused, fault.ProviderError, 1, 1},
		"400, OAuth form":       {400, `{"error":"invalid_request","error_description":"x"}`, outcome.Refused, fault.ProviderError, 1, 1},
		"400, wrong shapes":     {400, `{"error":{"code":7,"details":"x","innererror":[]}}`, outcome.Refused, fault.ProviderError, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			for effect, want := range map[call.Effect]int{call.Read: tc.read, call.Create: tc.create} {
				c, requests := newFailingExchange(t, tc.status, tc.body)
				_, err := invoke(t, c, effect)
				if outcome.KindOf(err) != tc.wantKind || !errors.Is(err, tc.wantCode) || *requests != want {
					t.Errorf("effect %d: %d requests, want %d; got %v, want %s %s", effect, *requests, want, err, tc.wantKind, tc.wantCode.Name)
				}
			}
		})
	}
}

func TestReportedErrorsInAnyFormAreFailures(t *testing.T) {
	for _, reported := range []string{`["something went wrong"]`, `[{"Message":"x"}]`, `[7]`, `["",""]`, `"x"`, `{"a":1}`} {
		c, _ := newFailingExchange(t, http.StatusOK, `{"value":[{"Name":"a"}],"@adminapi.errors":`+reported+`}`)
		if got, err := invoke(t, c, call.Create); outcome.KindOf(err) != outcome.Broken || got != nil {
			t.Errorf("%s: got %v, %v, want broken without rows", reported, got, err)
		}
	}
}
