DROP FUNCTION arm_tenant(text);
