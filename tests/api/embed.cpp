// SPDX-License-Identifier: Apache-2.0
// What examples/hello.c does, as a C++ program does it: objects that release what they hold, output into a std::string.
#include <cordon.h>

#include <iostream>
#include <memory>
#include <string>

template <auto release> struct releaser {
	template <typename T> void operator()(T *object) const { release(object); }
};
template <typename T, auto release> using holder = std::unique_ptr<T, releaser<release>>;

int main(int argc, char **argv)
{
	static const char *const python[] = {"python3", "-c", "print('hello from C++')", nullptr};
	cordon_error err{};
	auto fail = [&err] {
		std::cerr << err.message << '\n';
		return 125;
	};

	holder<cordon_policy, cordon_policy_free> policy(cordon_policy_new());
	if (cordon_policy_set(policy.get(), "limits.memory", "256M", &err) < 0)
		return fail();
	cordon *context = nullptr;
	if (cordon_open(&context, &err) < 0)
		return fail();
	holder<cordon, cordon_close> context_holder(context);
	cordon_sandbox *sandbox = nullptr;
	if (cordon_sandbox_create(context, policy.get(), nullptr, &sandbox, &err) < 0)
		return fail();
	holder<cordon_sandbox, cordon_sandbox_destroy> sandbox_holder(sandbox);

	std::string output;
	cordon_exec_options options{};
	options.size = sizeof(options);
	options.argv = argc > 1 ? const_cast<const char *const *>(argv + 1) : python;
	options.user = &output;
	options.on_output = [](void *user, cordon_stream, const void *data, size_t len) {
		static_cast<std::string *>(user)->append(static_cast<const char *>(data), len);
	};
	cordon_exec *exec = nullptr;
	if (cordon_exec_start(sandbox, &options, &exec, &err) < 0)
		return fail();
	holder<cordon_exec, cordon_exec_free> exec_holder(exec);
	if (cordon_exec_wait(exec, &err) < 0)
		return fail();
	std::cout << output;
	return cordon_exec_result(exec)->exit_code;
}
