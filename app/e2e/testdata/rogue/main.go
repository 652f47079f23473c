// SPDX-License-Identifier: Apache-2.0

// Command rogue is a plugin of a sending platform that does not use the SDK. It misbehaves when a
// credential is tested. The name of its file selects how:
//
//   - sending-hangs does not answer.
//   - sending-giant answers with 100 MB.
//   - sending-mistyped answers with a message of a different type.
//   - sending-exits ends its process.
//   - sending-forks starts processes, and exits with their number.
//   - sending-opens opens files until it can open no more, and returns an error with their number.
//   - sending-tells prints the credential, and returns an error that contains it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenantry/tenantry/plugins/proto"
)

const (
	giantBytes = 100_000_000
	forkCount  = 50
)

// name is the name of the plugin. It selects the misbehavior.
var name = strings.TrimPrefix(filepath.Base(os.Args[0]), "sending-")

func main() {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig:  plugin.HandshakeConfig{MagicCookieKey: "TENANTRY_PLUGIN", MagicCookieValue: "b6b0ad7a-hosted-by-tenantry"},
		VersionedPlugins: map[int]plugin.PluginSet{1: {"tenantry": services{}}},
		GRPCServer:       plugin.DefaultGRPCServer,
	})
}

type services struct {
	plugin.NetRPCUnsupportedPlugin
	proto.UnimplementedPluginServer
}

// GRPCServer registers the service Plugin and, of the service SendingPlatform, only the method
// Check. The handler of Check can answer with any message.
func (s services) GRPCServer(_ *plugin.GRPCBroker, server *grpc.Server) error {
	proto.RegisterPluginServer(server, s)
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: proto.SendingPlatform_ServiceDesc.ServiceName,
		Methods: []grpc.MethodDesc{{MethodName: "Check", Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			request := new(proto.SendingCheckRequest)
			if err := decode(request); err != nil {
				return nil, err
			}
			return check(ctx, string(request.GetConnection().GetSecrets()["api_key"]))
		}}},
	}, nil)
	return nil
}

func (services) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, nil
}

func (services) Describe(context.Context, *proto.DescribeRequest) (*proto.Description, error) {
	return &proto.Description{Name: name, Kind: "sending", Version: "1.0.0", Title: name, Fields: []*proto.Field{
		{Name: "api_key", Account: true, Required: true, Secret: true},
	}}, nil
}

// check answers the method Check with the misbehavior that name selects.
func check(ctx context.Context, key string) (any, error) {
	switch name {
	case "hangs":
		time.Sleep(1<<63 - 1)
	case "giant":
		return &proto.SendingReach{Workspaces: []*proto.SendingWorkspace{{Id: strings.Repeat("x", giantBytes)}}}, nil
	case "mistyped":
		return &proto.URL{Url: "not a workspace"}, nil
	case "exits":
		os.Exit(4)
	case "forks":
		started := 0
		for started < forkCount && exec.Command("/bin/sleep", "3600").Start() == nil {
			started++
		}
		os.Exit(started)
	case "opens":
		return nil, status.Errorf(codes.Aborted, "opened %d files", openFiles())
	case "tells":
		fmt.Println("the key is", key)
		fmt.Fprintln(os.Stderr, "the key is", key)
		return nil, status.Error(codes.Aborted, "the key is "+key)
	}
	return &proto.SendingReach{}, ctx.Err()
}

// leaked has the files that openFiles opened. They stay open.
var leaked []*os.File

// openFiles opens files until it can open no more, and returns their number.
func openFiles() int {
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return len(leaked)
		}
		leaked = append(leaked, f)
	}
}
