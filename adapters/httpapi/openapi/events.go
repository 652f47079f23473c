// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/webhook"
)

// Event returns the schema of an event. The schema lists the schemas of all event types as
// alternatives. The member `type` distinguishes them. Event adds these schemas to the components.
func Event(r huma.Registry) *huma.Schema {
	choice := &huma.Schema{Discriminator: &huma.Discriminator{PropertyName: "type", Mapping: map[string]string{}}}
	for _, k := range event.Kinds() {
		ref := eventRef(r, k)
		choice.OneOf = append(choice.OneOf, &huma.Schema{Ref: ref})
		choice.Discriminator.Mapping[string(k.Type)] = ref
	}
	return choice
}

// eventRef returns the reference to the schema of the events of a kind. It adds the schema to the
// components.
func eventRef(r huma.Registry, k event.Kind) string {
	name := eventSchemaName(k.Type)
	if r.Map()[name] == nil {
		r.Map()[name] = eventSchema(r, k)
	}
	return "#/components/schemas/" + name
}

// eventSchemaName returns the name of the schema of an event type, such as DnsJobFailedEvent for
// dns_job.failed.
func eventSchemaName(t event.Type) string {
	var name strings.Builder
	for word := range strings.FieldsFuncSeq(string(t), func(c rune) bool { return c == '.' || c == '_' }) {
		name.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return name.String() + "Event"
}

func eventSchema(r huma.Registry, k event.Kind) *huma.Schema {
	constant := func(value string) *huma.Schema { return &huma.Schema{Type: huma.TypeString, Enum: []any{value}} }
	minimum := 1.0
	described := func(text string, s *huma.Schema) *huma.Schema {
		s.Description = text
		return s
	}
	return object(k.About, map[string]*huma.Schema{
		"id":   described("The event's id.", &huma.Schema{Type: huma.TypeString, Format: "uuid"}),
		"type": described("What happened.", constant(string(k.Type))),
		"at":   described("When it happened.", &huma.Schema{Type: huma.TypeString, Format: "date-time"}),
		"tenant_id": described("The GUID of the subject's tenant, null if the subject belongs to no tenant.",
			&huma.Schema{Type: huma.TypeString, Format: "uuid", Nullable: true}),
		"subject": object("The object that changed.", map[string]*huma.Schema{
			"type": described("The kind of the object.", constant(string(k.Subject))),
			"id":   described("The object's id, as the API shows it.", &huma.Schema{Type: huma.TypeString}),
		}),
		"version": described("The number of the event among the events of this subject, beginning with 1.", &huma.Schema{Type: huma.TypeInteger, Format: "int64", Minimum: &minimum}),
		"data":    r.Schema(reflect.TypeOf(k.Data), true, ""),
	})
}

// object returns the schema of an object that has all these members.
func object(about string, members map[string]*huma.Schema) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeObject, Description: about, Properties: members, Required: slices.Sorted(maps.Keys(members))}
	s.PrecomputeMessages()
	return s
}

// webhooks returns the requests that the service sends to a caller's webhooks: one request for each
// event type, and one request for tests.
func webhooks(r huma.Registry) map[string]*huma.PathItem {
	byType := map[string]*huma.PathItem{}
	for _, kind := range append(event.Kinds(), webhook.TestKind) {
		byType[string(kind.Type)] = &huma.PathItem{Post: &huma.Operation{
			OperationID: "webhook-" + strings.NewReplacer(".", "-", "_", "-").Replace(string(kind.Type)),
			Summary:     string(kind.Type), Description: kind.About, Method: http.MethodPost,
			Security: []map[string][]string{},
			Parameters: []*huma.Param{
				webhookHeader("webhook-id", "The event's id. It is the same at every try.", huma.TypeString),
				webhookHeader("webhook-timestamp", "When the request was sent, in Unix seconds.", huma.TypeInteger),
				webhookHeader("webhook-signature", "`v1,` and the base64 of the HMAC-SHA256 of `id.timestamp.body`. During a rotation of the secret, both signatures, separated by a space.", huma.TypeString),
			},
			RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {
				Schema: object("", map[string]*huma.Schema{
					"type":      {Type: huma.TypeString, Enum: []any{string(kind.Type)}, Description: "The type of the event."},
					"timestamp": {Type: huma.TypeString, Format: "date-time", Description: "When it happened."},
					"data":      {Ref: eventRef(r, kind)},
				}),
			}}},
			Responses: map[string]*huma.Response{"2XX": {Description: "The event is delivered."}},
		}}
	}
	return byType
}

func webhookHeader(name, about, kind string) *huma.Param {
	return &huma.Param{Name: name, In: "header", Required: true, Description: about, Schema: &huma.Schema{Type: kind}}
}
