"""Object files as LLVM writes them on this machine, with each way to name a symbol."""

import ctypes
from collections.abc import Callable
from pathlib import Path

from llvmlite import binding as llvm

from kbroker.kernels.linking.linker import Linker
from kbroker.kernels.linking.mapped_image import MappedImage
from kbroker.kernels.linking.object_image import CompiledKernel
from kbroker.kernels.linking.shared_image import SharedImage

SOURCE = """
@table = private constant [4 x i64] [i64 1, i64 2, i64 3, i64 5]
@functions = private constant [2 x ptr] [ptr @add, ptr @twice]
@environment = common global ptr null
@counter = internal global i64 7
@zeros = internal global [9 x i64] zeroinitializer
@environ = external global ptr
declare i64 @labs(i64)

define i64 @add(i64 %a) {
  %p = getelementptr [4 x i64], ptr @table, i64 0, i64 %a
  %v = load i64, ptr %p
  %w = call i64 @labs(i64 %v)
  %c = load i64, ptr @counter
  %d = add i64 %c, %w
  store i64 %d, ptr @counter
  ret i64 %d
}
define i64 @twice(i64 %a) {
  %v = call i64 @labs(i64 %a)
  %w = call i64 @add(i64 2)
  %x = add i64 %v, %w
  ret i64 %x
}
define i64 @through(i64 %n) {
  %p = getelementptr [2 x ptr], ptr @functions, i64 0, i64 %n
  %f = load ptr, ptr %p
  %v = call i64 %f(i64 3)
  ret i64 %v
}
define i64 @outside(i64 %n) {
  %e = load ptr, ptr @environ
  %v = ptrtoint ptr %e to i64
  ret i64 %v
}
define i64 @keep(i64 %n) {
  %p = getelementptr [9 x i64], ptr @zeros, i64 0, i64 %n
  %v = load i64, ptr %p
  %w = add i64 %v, 10
  store i64 %w, ptr %p
  %e = load ptr, ptr @environment
  %i = ptrtoint ptr %e to i64
  %x = add i64 %v, %i
  ret i64 %x
}
define i64 @last(i64 %a) {
  %v = tail call i64 @labs(i64 %a)
  ret i64 %v
}
define i64 @choose(i64 %a) {
  switch i64 %a, label %other [ i64 0, label %a0  i64 1, label %a1  i64 2, label %a2
                                i64 3, label %a3  i64 4, label %a4  i64 5, label %a5 ]
a0:
  %r0 = call i64 @add(i64 0)
  ret i64 %r0
a1:
  ret i64 77
a2:
  %r2 = call i64 @labs(i64 -5)
  ret i64 %r2
a3:
  ret i64 4
a4:
  %r4 = call i64 @twice(i64 -3)
  ret i64 %r4
a5:
  ret i64 99
other:
  ret i64 -1
}
"""
CALLS = (
    ("add", 0), ("add", 3), ("twice", -9), ("through", 0), ("through", 1), ("keep", 8), ("keep", 8), ("last", -41),
    *(("choose", number) for number in range(7)), ("outside", 0),
)  # fmt: skip
NAMES = sorted({name for name, _ in CALLS})

Address = Callable[[str], int]


def compiled(
    source: str = SOURCE, reloc: str = "static", model: str = "jitdefault", triple: str = ""
) -> bytes:
    """An object file. By default as numba makes it on x86-64."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(triple or llvm.get_default_triple())
    machine = target.create_target_machine(reloc=reloc, codemodel=model, jit=model == "jitdefault", opt=2)
    module = llvm.parse_assembly(source)
    module.triple = triple or llvm.get_default_triple()
    code: bytes = machine.emit_object(module)
    return code


def image_of(code: bytes, environment: str = "environment") -> SharedImage:
    """The code linked, with each function of CALLS as if it were a kernel's wrapper."""
    linker = Linker()
    linker.add(code)
    return linker.link(CompiledKernel("module", name, code, name, environment) for name in NAMES)


def address_in(image: MappedImage) -> Address:
    """Where the functions are in memory."""
    return lambda name: image._memory.start + image._kernels["module", name].wrapper


def results(address: Address) -> list[int]:
    """What the functions give, called in the order of CALLS: they keep a counter."""
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    return [kind(address(name))(argument) for name, argument in CALLS]


def by_llvm(code: bytes) -> list[int]:
    """The same from code that LLVM links."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True, codemodel="jitdefault")
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return results(engine.get_function_address)


def rights(file: Path) -> dict[int, str]:
    """Rights of this process's pages of a file, by their offset in the file."""
    found = {}
    for line in Path("/proc/self/maps").read_text().splitlines():
        fields = line.split()
        if fields[-1] == str(file):
            found[int(fields[2], 16)] = fields[1]
    return found
