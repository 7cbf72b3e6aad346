// Package stubs has the stubs of the published interface and ours in one program. That it starts at
// all is the first thing it shows: with a name that is defined twice it would end before any test.
package stubs

import (
	"context"
	"os"
	"testing"
	"time"

	published "github.com/apache/yunikorn-scheduler-interface/lib/go/si"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	ours "monoceros.io/clients/go/si/v1"
	scheduler "monoceros.io/clients/go/si/v1/scheduler"
	_ "monoceros.io/clients/go/v1"
)

// fill sets every field of a message, as deep as is given.
func fill(message protoreflect.Message, depth int) {
	fields := message.Descriptor().Fields()
	for at := range fields.Len() {
		field := fields.Get(at)
		switch {
		case field.IsMap():
			values := message.Mutable(field).Map()
			value := values.NewValue()
			if inner, is := value.Interface().(protoreflect.Message); is {
				fill(inner, depth-1)
			} else {
				value = protoreflect.ValueOfString("value")
			}
			values.Set(protoreflect.ValueOfString("key").MapKey(), value)
		case field.IsList() && field.Message() != nil:
			if depth > 0 {
				fill(message.Mutable(field).List().AppendMutable().Message(), depth-1)
			}
		case field.IsList():
			message.Mutable(field).List().Append(scalar(field))
		case field.Message() != nil:
			if depth > 0 {
				fill(message.Mutable(field).Message(), depth-1)
			}
		default:
			message.Set(field, scalar(field))
		}
	}
}

func scalar(field protoreflect.FieldDescriptor) protoreflect.Value {
	n := int64(field.Number()) + 1
	switch field.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(string(field.Name()))
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(-n))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(-n)
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(uint64(n))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(field.Enum().Values().Get(field.Enum().Values().Len() - 1).Number())
	}
	panic("a field of another kind: " + field.FullName())
}

func TestMessagesOfThePublishedInterfaceAreReadWholeByOurs(t *testing.T) {
	messages := published.File_yunikorn_scheduler_interface_si_proto.Messages()
	for at := range messages.Len() {
		theirs := dynamicpb.NewMessage(messages.Get(at))
		name := theirs.Descriptor().Name()
		found, err := protoregistry.GlobalTypes.FindMessageByName("monoceros.si.v1." + protoreflect.FullName(name))
		if err != nil {
			t.Errorf("`%s` has no counterpart", name)
			continue
		}
		fill(theirs, 4)
		bytes, err := proto.MarshalOptions{Deterministic: true}.Marshal(theirs)
		if err != nil {
			t.Fatal(err)
		}
		own := found.New()
		if err := proto.Unmarshal(bytes, own.Interface()); err != nil {
			t.Fatal(err)
		}
		if unknown := own.GetUnknown(); len(unknown) != 0 {
			t.Errorf("`%s` has fields that ours does not: %x", name, unknown)
		}
		again, err := proto.MarshalOptions{Deterministic: true}.Marshal(own.Interface())
		if err != nil || string(again) != string(bytes) {
			t.Errorf("`%s`: %x, and in ours %x", name, bytes, again)
		}
	}
	// There are such as the service reads or writes.
	for _, name := range []protoreflect.Name{"RegisterResourceManagerRequest", "AllocationRequest",
		"AllocationResponse", "ApplicationRequest", "ApplicationResponse", "NodeRequest", "NodeResponse"} {
		if messages.ByName(name) == nil {
			t.Errorf("the published interface has no `%s`", name)
		}
	}
}

func TestBothReachTheService(t *testing.T) {
	address := os.Getenv("MONOCEROS_ADDRESS")
	if address == "" {
		t.Skip("skipped: MONOCEROS_ADDRESS does not say where the service is")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	theirs := &published.RegisterResourceManagerRequest{RmID: "theirs", PolicyGroup: "queues"}
	if _, err := published.NewSchedulerClient(conn).RegisterResourceManager(ctx, theirs); err != nil {
		t.Error(err)
	}
	own := &ours.RegisterResourceManagerRequest{RmID: "ours", PolicyGroup: "queues"}
	if _, err := scheduler.NewSchedulerClient(conn).RegisterResourceManager(ctx, own); err != nil {
		t.Error(err)
	}
}
