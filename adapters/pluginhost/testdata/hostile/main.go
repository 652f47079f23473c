// SPDX-License-Identifier: Apache-2.0

// Command hostile is a plugin written without the SDK, as an attacker might write a plugin. The
// name of its file selects what it does:
//
//   - liar announces a different protocol version.
//   - babbler prints a long line instead of the handshake.
//   - quitter exits instead of describing itself.
//   - garbler answers Profile and AddDomain with bytes that are not a message, and Bootstrap with
//     the id of its process.
//   - writer writes 300 kB without a line break to its standard output in each call of Bootstrap.
//   - A plugin with any other name answers Profile with 1 GiB.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"

	"github.com/tenantry/tenantry/plugins/proto"
)

func main() {
	switch {
	case strings.Contains(os.Args[0], "liar"):
		fmt.Println("1|9|unix|/nowhere|grpc|")
		sleep()
	case strings.Contains(os.Args[0], "babbler"):
		fmt.Println("\x1b[31mnot a handshake " + strings.Repeat("at all ", 5000))
		sleep()
	}
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig:  plugin.HandshakeConfig{MagicCookieKey: "TENANTRY_PLUGIN", MagicCookieValue: "b6b0ad7a-hosted-by-tenantry"},
		VersionedPlugins: map[int]plugin.PluginSet{1: {"tenantry": services{}}},
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			var codec encoding.CodecV2 = gibibyteCodec{encoding.GetCodecV2("proto")}
			if strings.Contains(os.Args[0], "garbler") {
				codec = garblingCodec{encoding.GetCodecV2("proto")}
			}
			return grpc.NewServer(append(opts, grpc.ForceServerCodecV2(codec))...)
		},
	})
}

// sleep never returns. An empty select would end the process, because the runtime reports a
// deadlock.
func sleep() { time.Sleep(1<<63 - 1) }

type services struct {
	plugin.NetRPCUnsupportedPlugin
	proto.UnimplementedPluginServer
	proto.UnimplementedMailPlatformServer
}

func (s services) GRPCServer(_ *plugin.GRPCBroker, server *grpc.Server) error {
	proto.RegisterPluginServer(server, s)
	proto.RegisterMailPlatformServer(server, s)
	return nil
}

func (services) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, nil
}

func (services) Describe(context.Context, *proto.DescribeRequest) (*proto.Description, error) {
	if strings.Contains(os.Args[0], "quitter") {
		os.Exit(5)
	}
	return &proto.Description{Name: os.Args[0][len("mail-"):], Kind: "mail"}, nil
}

func (services) Profile(context.Context, *proto.TenantRequest) (*proto.TenantProfile, error) {
	return &proto.TenantProfile{Name: "gibibyte"}, nil
}

func (services) AddDomain(context.Context, *proto.DomainRequest) (*proto.PlatformDomain, error) {
	return &proto.PlatformDomain{Name: "garbled.example"}, nil
}

// standardOutput is the file that the host reads. plugin.Serve replaces os.Stdout.
var standardOutput = os.Stdout

// Bootstrap returns the process id as the message.
func (services) Bootstrap(context.Context, *proto.TenantRequest) (*proto.Progress, error) {
	if strings.Contains(os.Args[0], "writer") {
		_, _ = standardOutput.WriteString(strings.Repeat("x", 300_000))
	}
	return &proto.Progress{Status: "ready", Message: strconv.Itoa(os.Getpid())}, nil
}

// gibibyteCodec encodes a profile as 1 GiB of zeros. It repeats one block of 1 MiB.
type gibibyteCodec struct{ encoding.CodecV2 }

func (c gibibyteCodec) Marshal(v any) (mem.BufferSlice, error) {
	if _, ok := v.(*proto.TenantProfile); !ok {
		return c.CodecV2.Marshal(v)
	}
	block := mem.SliceBuffer(make([]byte, 1<<20))
	var blocks mem.BufferSlice
	for range 1024 {
		blocks = append(blocks, block)
	}
	return blocks, nil
}

// garblingCodec encodes a profile or a domain as a text field that announces 127 bytes and ends
// after three bytes.
type garblingCodec struct{ encoding.CodecV2 }

func (c garblingCodec) Marshal(v any) (mem.BufferSlice, error) {
	switch v.(type) {
	case *proto.TenantProfile, *proto.PlatformDomain:
		return mem.BufferSlice{mem.SliceBuffer("\x0a\x7fabc")}, nil
	}
	return c.CodecV2.Marshal(v)
}
